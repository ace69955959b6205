package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// wordRule is one pattern of the prose style with the message that explains a finding.
type wordRule struct {
	pattern *regexp.Regexp
	message string
}

// Comments and messages in Go files follow the rules that Vale applies to the documentation.
func TestGoFilesFollowTheProseStyle(t *testing.T) {
	rules := wordRules(t)
	require.Greater(t, len(rules), 30)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		tree, err := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || tree == "bin" || strings.HasPrefix(tree, ".git")):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		for _, finding := range findings(t, path, rules) {
			t.Error(finding)
		}
		return nil
	})
	require.NoError(t, err)
}

// A rule that matches nothing would pass every text.
func TestTheProseStyleFindsForbiddenWords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "riddle.go")
	text := "package riddle\n\n// Whoever reads this knows it.\nconst message = \"the node is handed over\"\n\nconst name = \"anew\" // a name is no message\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	found := findings(t, path, wordRules(t))
	require.Len(t, found, 2)
	require.Contains(t, found[0], `riddle.go:3:1: "Whoever"`)
	require.Contains(t, found[1], `riddle.go:4:17: "handed over"`)
}

// The names that users read in the APIs follow the same rules: JSON fields and string constants, by the words that they consist of.
func TestNamesInTheAPIsFollowTheProseStyle(t *testing.T) {
	rules := wordRules(t)
	checked := 0
	for _, path := range goFiles(t, "internal/apis") {
		for _, name := range apiNames(t, path) {
			checked++
			for _, rule := range rules {
				if match := rule.pattern.FindString(spaced(name)); match != "" {
					t.Errorf("%s: %s: %q: %s", path, name, match, rule.message)
				}
			}
		}
	}
	require.Greater(t, checked, 300)
	require.Equal(t, "handed Over", spaced("handedOver"))
}

// apiNames are the JSON fields and the strings without a space of a Go file.
func apiNames(t *testing.T, path string) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			text, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			if tag, ok := reflect.StructTag(text).Lookup("json"); ok {
				text, _, _ = strings.Cut(tag, ",")
			}
			if text != "" && !strings.Contains(text, " ") {
				names = append(names, text)
			}
		}
		return true
	})
	return names
}

// spaced separates the words of a name.
func spaced(name string) string {
	return regexp.MustCompile(`([a-z0-9])([A-Z])`).ReplaceAllString(name, "$1 $2")
}

// findings lists what the rules find in the comments and in the messages of a Go file. A string without a space is a name, not a message.
func findings(t *testing.T, path string, rules []wordRule) []string {
	t.Helper()
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, path, nil, parser.ParseComments)
	require.NoError(t, err)
	if ast.IsGenerated(file) {
		return nil
	}
	var found []string
	check := func(at token.Pos, text string) {
		for _, rule := range rules {
			if match := rule.pattern.FindString(text); match != "" {
				found = append(found, fmt.Sprintf("%s: %q: %s", positions.Position(at), match, rule.message))
			}
		}
	}
	for _, group := range file.Comments {
		check(group.Pos(), group.Text())
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			text, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			if strings.Contains(text, " ") {
				check(literal.Pos(), text)
			}
		}
		return true
	})
	return found
}

// wordRules reads the rules of the prose style.
func wordRules(t *testing.T) []wordRule {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, ".vale/styles/Drydock/*.yml"))
	require.NoError(t, err)
	var rules []wordRule
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var style struct {
			Message string            `json:"message"`
			Tokens  []string          `json:"tokens"`
			Swap    map[string]string `json:"swap"`
		}
		require.NoError(t, yaml.Unmarshal(text, &style), path)
		for _, pattern := range style.Tokens {
			rules = append(rules, newWordRule(t, pattern, "has no subject: name the person or the thing"))
		}
		for pattern, better := range style.Swap {
			rules = append(rules, newWordRule(t, pattern, "write "+better))
		}
	}
	slices.SortFunc(rules, func(a, b wordRule) int { return strings.Compare(a.pattern.String(), b.pattern.String()) })
	return rules
}

// newWordRule matches a pattern as Vale does: whole words in upper or lower case, also where a line breaks.
func newWordRule(t *testing.T, pattern, message string) wordRule {
	t.Helper()
	compiled, err := regexp.Compile(`(?i)\b(?:` + strings.ReplaceAll(pattern, " ", `\s+`) + `)\b`)
	require.NoError(t, err)
	return wordRule{compiled, message}
}
