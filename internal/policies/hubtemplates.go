package policies

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// Delimiters of hub templates.
const hubLeft, hubRight = "{{hub", "hub}}"

// HubReads is what the hub templates of a policy read on the hub, which resolves them in the namespace of the policy.
type HubReads struct {
	// ConfigMaps of the namespace, by name.
	ConfigMaps []string
	// NotCopied is why a copy of the policy in another namespace cannot read the same; empty: it can, if these ConfigMaps are copied, too.
	NotCopied string
}

// HubReadsOf returns what the hub templates in a value of a policy read.
func HubReadsOf(namespace string, value any) HubReads {
	var reads HubReads
	_ = mapTexts(value, func(text string) string {
		lookUps, err := lookUpsIn(text)
		if err != nil {
			reads.refuse(fmt.Sprintf("cannot be read: %v", err))
		}
		for _, found := range lookUps {
			reads.add(namespace, found)
		}
		return text
	})
	slices.Sort(reads.ConfigMaps)
	reads.ConfigMaps = slices.Compact(reads.ConfigMaps)
	return reads
}

func (r *HubReads) refuse(why string) {
	if r.NotCopied == "" {
		r.NotCopied = why
	}
}

func (r *HubReads) add(namespace string, found lookUp) {
	switch {
	case found.allowed:
	case found.secret:
		r.refuse(fmt.Sprintf("read a Secret (%s), which a copy in another namespace would show to its readers", found.function))
	case found.name == nil || found.namespace == nil:
		r.refuse(fmt.Sprintf("read an object (%s) whose name or kind is known only when the hub resolves them", found.function))
	case found.namespace.Text != "" && found.namespace.Text != namespace:
		r.refuse(fmt.Sprintf("read namespace %s, and the hub reads only that of the policy, %s", found.namespace.Text, namespace))
	default:
		r.ConfigMaps = append(r.ConfigMaps, found.name.Text)
	}
}

// Merge adds what another part of the policy reads.
func (r HubReads) Merge(other HubReads) HubReads {
	merged := HubReads{ConfigMaps: slices.Concat(r.ConfigMaps, other.ConfigMaps), NotCopied: r.NotCopied}
	merged.refuse(other.NotCopied)
	slices.Sort(merged.ConfigMaps)
	merged.ConfigMaps = slices.Compact(merged.ConfigMaps)
	return merged
}

// Copies returns the names of the ConfigMaps that a rollout copies beside its copy of a policy, by the names of their sources; none if the copy reads the same
// without.
func (r HubReads) Copies(rollout string, policyNamespace string, by ranv1.PolicyEnforcement) []string {
	if by != ranv1.EnforceCopy || rollout == policyNamespace {
		return nil
	}
	return r.ConfigMaps
}

// redirectHubTemplates lets hub templates read the ConfigMaps of another namespace, under other names.
func redirectHubTemplates(value any, namespace string, name func(string) string) any {
	return mapTexts(value, func(text string) string {
		lookUps, err := lookUpsIn(text)
		if err != nil {
			return text
		}
		slices.Reverse(lookUps) // so that the positions of the others stay right
		for _, found := range lookUps {
			if found.allowed || found.secret || found.name == nil || found.namespace == nil {
				continue
			}
			text = replaceLiteral(text, found.name, name(found.name.Text))
			text = replaceLiteral(text, found.namespace, namespace)
		}
		return text
	})
}

func replaceLiteral(text string, literal *parse.StringNode, value string) string {
	start := int(literal.Pos)
	return text[:start] + strconv.Quote(value) + text[start+len(literal.Quoted):]
}

// mapTexts returns a copy of a value of an object with other texts.
func mapTexts(value any, change func(string) string) any {
	switch value := value.(type) {
	case string:
		return change(value)
	case []any:
		made := make([]any, len(value))
		for i, item := range value {
			made[i] = mapTexts(item, change)
		}
		return made
	case map[string]any:
		made := make(map[string]any, len(value))
		for key, item := range value {
			made[change(key)] = mapTexts(item, change)
		}
		return made
	}
	return value
}

// lookUp is a call of a function of hub templates that reads an object.
type lookUp struct {
	function string
	// namespace and name are the arguments; nil: they are not literals.
	namespace, name *parse.StringNode
	// secret: it reads a Secret. allowed: it reads an object that has no namespace, and that every policy may read.
	secret, allowed bool
}

// lookUpsIn returns the look-ups of the hub templates in a text, in their order.
func lookUpsIn(text string) ([]lookUp, error) {
	if !strings.Contains(text, hubLeft) {
		return nil, nil
	}
	tree := parse.New("hub template")
	tree.Mode = parse.SkipFuncCheck
	trees := map[string]*parse.Tree{}
	if _, err := tree.Parse(text, hubLeft, hubRight, trees); err != nil {
		return nil, err
	}
	var found []lookUp
	for _, one := range trees {
		visitCommands(one.Root, func(command *parse.CommandNode) {
			if called, is := lookUpOf(command); is {
				found = append(found, called)
			}
		})
	}
	slices.SortFunc(found, func(a, b lookUp) int { return a.position() - b.position() })
	return found, nil
}

func (l lookUp) position() int {
	if l.name == nil {
		return 0
	}
	return int(l.name.Pos)
}

func lookUpOf(command *parse.CommandNode) (lookUp, bool) {
	function, is := command.Args[0].(*parse.IdentifierNode)
	if !is {
		return lookUp{}, false
	}
	literal := func(at int) *parse.StringNode {
		if at >= len(command.Args) {
			return nil
		}
		text, _ := command.Args[at].(*parse.StringNode)
		return text
	}
	found := lookUp{function: function.Ident}
	switch function.Ident {
	case "fromConfigMap", "copyConfigMapData":
		found.namespace, found.name = literal(1), literal(2)
	case "fromSecret", "copySecretData":
		found.secret = true
	case "lookup":
		group, kind, namespace := literal(1), literal(2), literal(3)
		found.secret = kind != nil && kind.Text == "Secret"
		found.allowed = group != nil && kind != nil && namespace != nil && namespace.Text == "" &&
			kind.Text == ManagedClusters.Kind && strings.HasPrefix(group.Text, ManagedClusters.Group+"/")
	default:
		return lookUp{}, false
	}
	return found, true
}

// visitCommands calls visit for every command of a template.
func visitCommands(node parse.Node, visit func(*parse.CommandNode)) {
	branch := func(pipe *parse.PipeNode, lists ...*parse.ListNode) {
		visitCommands(pipe, visit)
		for _, list := range lists {
			visitCommands(list, visit)
		}
	}
	switch node := node.(type) {
	case *parse.ListNode:
		if node != nil {
			for _, item := range node.Nodes {
				visitCommands(item, visit)
			}
		}
	case *parse.ActionNode:
		branch(node.Pipe)
	case *parse.IfNode:
		branch(node.Pipe, node.List, node.ElseList)
	case *parse.RangeNode:
		branch(node.Pipe, node.List, node.ElseList)
	case *parse.WithNode:
		branch(node.Pipe, node.List, node.ElseList)
	case *parse.TemplateNode:
		branch(node.Pipe)
	case *parse.ChainNode:
		visitCommands(node.Node, visit)
	case *parse.PipeNode:
		if node != nil {
			for _, command := range node.Cmds {
				visitCommands(command, visit)
			}
		}
	case *parse.CommandNode:
		visit(node)
		for _, argument := range node.Args {
			visitCommands(argument, visit)
		}
	}
}
