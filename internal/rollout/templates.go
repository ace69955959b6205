package rollout

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"drydock.dev/drydock/internal/installplans"
	"drydock.dev/drydock/internal/policies"
)

// Kinds of objects in policies that a rollout looks at, and the prefix of the apiVersion of those of Operator Lifecycle Manager.
const (
	clusterVersionKind = "ClusterVersion"
	subscriptionKind   = "Subscription"
	catalogKind        = "CatalogSource"
	operatorsGroup     = "operators.coreos.com/"
)

// readTemplates reads the templates of the policy. The remediation action of the policy overrides those of its templates.
func (p *Policy) readTemplates(object map[string]any) error {
	action, err := fieldOf[string](object, "spec", "remediationAction")
	if err != nil {
		return err
	}
	templates, err := fieldOf[[]any](object, "spec", "policy-templates")
	if err != nil {
		return err
	}
	if account, _, _ := unstructured.NestedString(object, "spec", "hubTemplateOptions", "serviceAccountName"); account != "" {
		p.HubReads.NotCopied = fmt.Sprintf("are resolved with the rights of ServiceAccount %s of namespace %s", account, p.Namespace)
	}
	enforcing := 0
	for i, template := range templates {
		enforces, err := p.readTemplate(template)
		if err != nil {
			p.Invalid = fmt.Sprintf("spec.policy-templates[%d]: %v", i, err)
			break
		}
		if enforces {
			enforcing++
		}
	}
	p.Enforces = strings.EqualFold(action, "enforce") || action == "" && enforcing > 0 && enforcing == len(templates)
	return nil
}

// statusKey is the key of a status in YAML or JSON.
var statusKey = regexp.MustCompile(`status["']?\s*:`)

// readTemplate reads one policy template, and reports whether it enforces.
func (p *Policy) readTemplate(template any) (enforces bool, err error) {
	fields, _ := template.(map[string]any)
	definition, found, err := unstructured.NestedMap(fields, "objectDefinition")
	if err != nil || !found {
		return false, fmt.Errorf("objectDefinition is missing")
	}
	spec, found, err := unstructured.NestedMap(definition, "spec")
	if err != nil || !found {
		return false, fmt.Errorf("objectDefinition.spec is missing")
	}
	raw, _, _ := unstructured.NestedString(spec, "object-templates-raw")
	objects, err := fieldOf[[]any](spec, "object-templates")
	switch {
	case err != nil:
		return false, fmt.Errorf("objectDefinition.spec.%w", err)
	case objects == nil && raw == "" && definition["kind"] == "ConfigurationPolicy":
		return false, fmt.Errorf("objectDefinition.spec.object-templates is missing")
	}
	p.HubReads = p.HubReads.Merge(policies.HubReadsOf(p.Namespace, definition))
	p.ReadsStatus = p.ReadsStatus || statusKey.MatchString(raw)
	for _, object := range objects {
		fields, _ := object.(map[string]any)
		definition, _, _ := unstructured.NestedMap(fields, "objectDefinition")
		if _, looks := definition["status"]; looks {
			p.ReadsStatus = true
		}
		p.readObject(fields)
	}
	p.readRaw(raw)
	action, _, _ := unstructured.NestedString(spec, "remediationAction")
	return strings.EqualFold(action, "enforce"), nil
}

// readRaw reads the objects in raw text. With templates, the text is not known yet.
func (p *Policy) readRaw(raw string) {
	if templated(raw) {
		p.Templated = append(p.Templated, kindsSet(raw)...)
		return
	}
	var objects []any
	if raw == "" || yaml.Unmarshal([]byte(raw), &objects) != nil {
		return
	}
	for _, object := range objects {
		fields, _ := object.(map[string]any)
		p.readObject(fields)
	}
}

// templated reports whether a text has a template, which the hub or the cluster resolves later.
func templated(text string) bool { return strings.Contains(text, "{{") }

// kindKey is a kind, in YAML or JSON, whose objects a rollout looks at.
var kindKey = regexp.MustCompile(`kind["']?\s*:\s*["']?(` + clusterVersionKind + `|` + subscriptionKind + `|` + catalogKind + `)\b`)

// kindsSet are the kinds of objects that raw text sets. An object without the key that counts only reads a status.
func kindsSet(raw string) []string {
	counts := map[string]string{clusterVersionKind: "desiredUpdate", subscriptionKind: "channel", catalogKind: "image"}
	var kinds []string
	for _, found := range kindKey.FindAllStringSubmatch(raw, -1) {
		if kind := found[1]; strings.Contains(raw, counts[kind]) && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// readObject reads an object of a template that the cluster must have.
func (p *Policy) readObject(fields map[string]any) {
	if required, _, _ := unstructured.NestedString(fields, "complianceType"); strings.EqualFold(required, "mustnothave") {
		return
	}
	definition, _, _ := unstructured.NestedMap(fields, "objectDefinition")
	object := unstructured.Unstructured{Object: definition}
	ofOperators := strings.HasPrefix(object.GetAPIVersion(), operatorsGroup)
	switch kind := object.GetKind(); {
	case setsRelease(definition):
		p.Releases = append(p.Releases, readRelease(definition))
	case ofOperators && kind == subscriptionKind:
		p.Subscriptions = append(p.Subscriptions, Subscription{
			Kind: kind, Name: object.GetName(), APIVersion: object.GetAPIVersion(), Namespace: object.GetNamespace(), Spec: installplans.SpecOf(&object),
		})
	case ofOperators && kind == catalogKind:
		if image, _, _ := unstructured.NestedString(definition, "spec", "image"); image != "" {
			p.Catalogs = append(p.Catalogs, Catalog{Namespace: object.GetNamespace(), Name: object.GetName(), Image: image})
		}
	}
}
