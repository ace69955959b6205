package manifest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// selectorText draws texts that are valid selectors, or nearly.
func selectorText() *rapid.Generator[string] {
	token := rapid.SampledFrom([]string{
		"a", "B", "x.y/a", "x..y/a", "X/a", "x/", "/a", "a.b", "a_", "-a", "é", "in", "notin", "(", ")", ",", "=", "==", "!=", "!", "<", ">", "5", "007", " ", " ", "\t",
		strings.Repeat("a", 63), strings.Repeat("a", 64), "a=b", "a in (b,c)", ",c!=d", "!e",
	})
	return rapid.Map(rapid.SliceOfN(token, 0, 9), func(tokens []string) string { return strings.Join(tokens, "") })
}

func TestTheRuleForSelectorsIsTheirGrammar(t *testing.T) {
	kinds, err := allKinds()
	require.NoError(t, err)
	kind, err := kinds.find(maintenancev1.GroupVersion.WithKind("NodeMaintenance"))
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		selector := selectorText().Draw(t, "selector")
		_, rules := kind.validate(map[string]any{"spec": map[string]any{
			"requestorID": "me.example.com", "nodeName": "n1", "drainSpec": map[string]any{"podSelector": selector},
		}})
		_, err := labels.Parse(selector)
		blank := selector != "" && strings.TrimSpace(selector) == "" // it would select every pod
		require.Equal(t, err == nil && !blank, len(rules) == 0, "%q: %v, %v", selector, err, rules)
	})
}

func TestSelectorsThatCanNeverMatchAreRefused(t *testing.T) {
	for selector, possible := range map[string]bool{
		"": true, "a": true, "!a": true, "a=b": true, "a!=b": true, "a,a=b": true, "a in (b,c),a!=b": true, "a notin (b),!a": true, "a=,a": true,
		"a>1,a<3": true, "a>1,a<3,a notin (2)": true /* 02 */, "a in (1,2,x),a>1": true, "a<1": true, "a>1,a!=2": true,
		"a,!a": false, "a=b,a=c": false, "a=b,!a": false, "a=b,a!=b": false, "a in (b,c),a notin (c,b)": false, "a=,!a": false,
		"a>1,a<2": false, "a<0": false, "a>1,!a": false, "a in (1,x),a>1": false, "a=b,c,!c": false, "a>9223372036854775807": false,
	} {
		require.Equal(t, possible, len(validateMatches(selector, field.NewPath("s"))) == 0, selector)
	}
}

// The selectors are drawn around an object that they must match.
func TestASelectorThatMatchesSomethingIsNotRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.MapOf(rapid.SampledFrom([]string{"a", "b"}), rapid.SampledFrom([]string{"", "x", "y", "0", "1", "2", "3"})).Draw(t, "object")
		var parts []string
		for _, part := range rapid.SliceOfN(rapid.SampledFrom([]string{
			"a", "!a", "a=x", "a!=x", "a in (x,y,1)", "a notin (x,2)", "a>0", "a>1", "a<2", "a<3", "b", "!b", "b=", "b!=", "b in (0,3)", "b<1", "b>2",
		}), 0, 12).Draw(t, "parts") {
			selector, err := labels.Parse(part)
			require.NoError(t, err)
			if selector.Matches(labels.Set(object)) {
				parts = append(parts, part)
			}
		}
		require.Empty(t, validateMatches(strings.Join(parts, ","), field.NewPath("s")))
	})
}
