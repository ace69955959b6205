package content_test

import (
	"bytes"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/prepare/content"
)

// Catalogs and releases are files in images that others build. They are read or refused, and name no image that is empty.
func FuzzImagesThatOthersBuild(f *testing.F) {
	for _, seed := range []string{
		`{"schema": "olm.channel", "package": "p", "name": "c", "entries": [{"name": "p.v1", "replaces": "p.v0", "skips": ["x"]}]}
		{"schema": "olm.bundle", "package": "p", "name": "p.v1", "image": "i", "relatedImages": [{"image": "r"}]}`,
		"---\nschema: olm.channel\npackage: p\nname: c\nentries:\n- name: p.v1\n---\nschema: olm.bundle\npackage: p\nname: p.v1\nimage: i\n",
		`{"kind": "ImageStream", "spec": {"tags": [{"name": "etcd", "from": {"name": "quay.io/etcd"}}]}}`, "[]", "null", "\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		bundles, err := content.ReadCatalog(fstest.MapFS{"catalog": {Data: data}}, []content.Package{{Name: "p", Channel: "c"}})
		if err == nil {
			for _, bundle := range bundles {
				require.NotContains(t, bundle.Images, "")
			}
		}
		components, err := content.ReadRelease(bytes.NewReader(data))
		if err == nil {
			require.NotContains(t, content.Without(components, nil), "")
		}
	})
}

func FuzzPatterns(f *testing.F) {
	for _, seed := range []string{`^\(a\|b\)*c\{1,2\}$`, `[]^a-z\]*\<x`, `\`, "[[:alpha:"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		if compiled, err := content.CompileBasic(pattern); err == nil {
			compiled.MatchString("quay.io/etcd")
		}
	})
}
