package policies

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatHubTemplatesReadIsFound(t *testing.T) {
	for _, tt := range []struct{ name, text, notCopied string }{
		{"a literal", `{{hub fromConfigMap "" "sizes" "b" hub}}`, ""},
		{"the namespace of the policy", `{{hub fromConfigMap "base" "sizes" "b" hub}}`, ""},
		{"a key that is computed", `{{hub fromConfigMap "" "sizes" (printf "%s-size" .ManagedClusterName) | toInt hub}}`, ""},
		{"several, within a condition", `x {{hub- if eq "a" .ManagedClusterName -hub}}{{hub (fromConfigMap "" "sizes" "a").x hub}}{{hub else hub}}{{hub copyConfigMapData "" "sizes" hub}}{{hub end hub}}`, ""},
		{"a template of the cluster", `{{ fromSecret "a" "b" "c" }} {{hub fromConfigMap "" "sizes" "b" hub}}`, ""},
		{"a ManagedCluster", `{{hub (lookup "cluster.open-cluster-management.io/v1" "ManagedCluster" "" .ManagedClusterName).metadata.name hub}}{{hub fromConfigMap "" "sizes" "b" hub}}`, ""},
		{"another namespace", `{{hub fromConfigMap "other" "sizes" "b" hub}}`, "read namespace other, and the hub reads only that of the policy, base"},
		{"a name that is computed", `{{hub fromConfigMap "" (printf "%s" .ManagedClusterName) "b" hub}}`, "read an object (fromConfigMap) whose name or kind is known only when the hub resolves them"},
		{"a name in a pipe", `{{hub "sizes" | copyConfigMapData "" hub}}`, "read an object (copyConfigMapData) whose name or kind is known only when the hub resolves them"},
		{"a Secret", `{{hub fromSecret "" "keys" "b" hub}}`, "read a Secret (fromSecret), which a copy in another namespace would show to its readers"},
		{"a Secret by look-up", `{{hub (lookup "v1" "Secret" "" "keys").data hub}}`, "read a Secret (lookup), which a copy in another namespace would show to its readers"},
		{"any other object", `{{hub (lookup "v1" "ConfigMap" "" "sizes").data hub}}`, "read an object (lookup) whose name or kind is known only when the hub resolves them"},
		{"a template that cannot be parsed", `{{hub if hub}}`, "cannot be read: template: hub template:1: missing value for if"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reads := HubReadsOf("base", map[string]any{"objects": []any{map[string]any{"k": tt.text, "other": true}}})
			require.Equal(t, tt.notCopied, reads.NotCopied)
			if tt.notCopied == "" {
				require.Equal(t, []string{"sizes"}, reads.ConfigMaps)
			}
		})
	}
	require.Zero(t, HubReadsOf("base", map[string]any{"k": `{{hub .ManagedClusterName hub}} {{ fromConfigMap "a" "b" "c" }}`}))
}

func TestHubTemplatesOfACopyReadTheCopies(t *testing.T) {
	redirected := redirectHubTemplates(map[string]any{
		"one":  `{{hub fromConfigMap "" "sizes" "b" hub}} and {{hub fromConfigMap "base" "flags" (printf "%s" "sizes") hub}}`,
		"raw":  "{{hub copyConfigMapData `` `sizes` hub}}",
		"none": `{{ fromConfigMap "" "sizes" "b" }}`, "number": int64(3),
	}, "fleet", func(name string) string { return "june-" + name })
	require.Equal(t, map[string]any{
		"one": `{{hub fromConfigMap "fleet" "june-sizes" "b" hub}} and {{hub fromConfigMap "fleet" "june-flags" (printf "%s" "sizes") hub}}`,
		"raw": `{{hub copyConfigMapData "fleet" "june-sizes" hub}}`, "none": `{{ fromConfigMap "" "sizes" "b" }}`, "number": int64(3),
	}, redirected)
}
