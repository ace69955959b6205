package manifest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"

	"drydock.dev/drydock/internal/manifest"
)

// FuzzDecode decodes random text. The result is an Invalid with a message, or objects that decode again unchanged: defaults are set once, and no
// accepted object becomes invalid.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{goodRollout, goodWindows, "apiVersion: maintenance.nvidia.com/v1alpha1\nkind: NodeMaintenance\nmetadata: {name: a}\nspec: {requestorID: a.example.com, nodeName: n1, additionalRequestors: []}", "", "--- {}\n...\n", "{", "[", "&a [*a]", "a: &a [*a, *a]", "\x00", "kind: List\napiVersion: v1\nitems: [1]"} {
		f.Add([]byte(seed))
	}
	for _, test := range invalidCases() {
		f.Add([]byte(test.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		objects, err := manifest.Decode("fuzz", text)
		if err != nil {
			require.IsType(t, manifest.Invalid{}, err)
			require.NotEmpty(t, err.Error())
			require.Empty(t, objects)
			return
		}
		for _, object := range objects {
			before := object.DeepCopyObject()
			require.NoError(t, manifest.Complete(object))
			require.True(t, equality.Semantic.DeepEqual(before, object), "%v\n%v", before, object) // an empty list is an absent one
		}
	})
}
