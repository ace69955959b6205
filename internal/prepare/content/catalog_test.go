package content_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/prepare/content"
)

func TestTheHeadOfAChannelIsTheEntryThatNoOtherReplacesOrSkips(t *testing.T) {
	const bundles = `
{"schema": "olm.bundle", "package": "p", "name": "p.v1", "image": "i:1"}
{"schema": "olm.bundle", "package": "p", "name": "p.v2", "image": "i:2", "relatedImages": [{"image": "r:2"}, {"image": "i:2"}]}`
	tests := []struct {
		name, channel, want, problem string
	}{
		{"one entry", `[{"name": "p.v1"}]`, "p.v1", ""},
		{"replaced", `[{"name": "p.v1"}, {"name": "p.v2", "replaces": "p.v1"}]`, "p.v2", ""},
		{"newest first", `[{"name": "p.v2", "replaces": "p.v1"}, {"name": "p.v1", "replaces": "p.v0"}]`, "p.v2", ""},
		{"skipped", `[{"name": "p.v1"}, {"name": "p.v2", "skips": ["p.v1"]}]`, "p.v2", ""},
		{"two heads", `[{"name": "p.v1"}, {"name": "p.v2"}]`, "", "channel p:stable has 2 entries that no other replaces, but one is expected"},
		{"a cycle", `[{"name": "p.v1", "replaces": "p.v2"}, {"name": "p.v2", "replaces": "p.v1"}]`, "", "channel p:stable has 0 entries"},
		{"no bundle", `[{"name": "p.v3"}]`, "", "channel p:stable: its newest bundle p.v3 is not in the catalog"},
		{"a broken entry", `"p.v1"`, "", "p/catalog.json: json: cannot unmarshal"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			catalog := fstest.MapFS{
				"p/catalog.json": {Data: []byte(`{"schema": "olm.channel", "package": "p", "name": "stable", "entries": ` + test.channel + `}` + bundles)},
			}
			found, err := content.ReadCatalog(catalog, []content.Package{{Name: "p", Channel: "stable"}, {Name: "p", Channel: "other"}})
			if test.problem != "" {
				require.ErrorContains(t, err, test.problem)
				return
			}
			require.NoError(t, err)
			require.Len(t, found, 1)
			require.Equal(t, test.want, found[0].Bundle)
			if test.want == "p.v2" {
				require.Equal(t, []string{"i:2", "r:2"}, found[0].Images)
			}
		})
	}
}
