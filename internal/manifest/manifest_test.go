package manifest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/manifest"
)

const goodRollout = `
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {name: os-update, namespace: prod}
spec:
  clusters: [c1]
  remediationStrategy: {maxConcurrency: 10%}
  nodeMaintenance:
    drainSpec: {}
status:
  percentage: 50
`

func TestDefaultsAreThoseOfTheCRD(t *testing.T) {
	objects, err := manifest.Decode("rollout.yaml", []byte(goodRollout))
	require.NoError(t, err)
	require.Len(t, objects, 1)
	rollout := objects[0].(*ranv1.ClusterGroupUpgrade)
	require.Equal(t, "ClusterGroupUpgrade", rollout.Kind)
	require.True(t, *rollout.Spec.Enable)
	require.Equal(t, ranv1.BatchTimeoutContinue, rollout.Spec.BatchTimeoutAction)
	require.EqualValues(t, 240, rollout.Spec.RemediationStrategy.Timeout)
	require.EqualValues(t, 300, *rollout.Spec.NodeMaintenance.DrainSpec.TimeoutSeconds)
	require.True(t, *rollout.Spec.NodeMaintenance.ControlPlaneFirst)
}

func TestAnExplicitFalseStaysFalse(t *testing.T) {
	objects, err := manifest.Decode("rollout.yaml", []byte(strings.Replace(goodRollout, "spec:", "spec:\n  enable: false", 1)))
	require.NoError(t, err)
	require.False(t, *objects[0].(*ranv1.ClusterGroupUpgrade).Spec.Enable)
}

func TestTheStatusInAFileIsDropped(t *testing.T) {
	objects, err := manifest.Decode("rollout.yaml", []byte(goodRollout))
	require.NoError(t, err)
	require.Zero(t, objects[0].(*ranv1.ClusterGroupUpgrade).Status)
}

func TestAFileMayHoldSeveralObjects(t *testing.T) {
	const one = `{"apiVersion": "maintenance.nvidia.com/v1alpha1", "kind": "NodeMaintenance", "metadata": {"name": "a"}, "spec": {"requestorID": "me.example.com", "nodeName": "n1"}}`
	tests := []struct {
		name, text string
		objects    int
	}{
		{"YAML documents", "# comment\n---\n" + one + "\n--- # another\n" + one + "\n---\n", 2},
		{"a document that begins on the line of its separator", "--- " + one + "\n...\n", 1},
		{"JSON values one after the other, with tabs", "\t" + one + "\n\t" + one, 2},
		{"a List", `{"apiVersion": "v1", "kind": "List", "items": [` + one + `, {"apiVersion": "v1", "kind": "List", "items": [` + one + `]}]}`, 2},
		{"a typed list whose items do not repeat their kind", `
apiVersion: maintenance.nvidia.com/v1alpha1
kind: NodeMaintenanceList
items:
- metadata: {name: a}
  spec: {requestorID: me.example.com, nodeName: n1}
`, 1},
		{"nothing", "", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			objects, err := manifest.Decode("file", []byte(test.text))
			require.NoError(t, err)
			require.Len(t, objects, test.objects)
		})
	}
}

func TestLoadReadsAFileOrStandardInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rollout.yaml")
	require.NoError(t, os.WriteFile(path, []byte(goodRollout), 0o600))
	rollout, err := manifest.LoadOne[*ranv1.ClusterGroupUpgrade](path, nil)
	require.NoError(t, err)
	require.Equal(t, "os-update", rollout.Name)

	rollout, err = manifest.LoadOne[*ranv1.ClusterGroupUpgrade](manifest.Stdin, strings.NewReader(goodRollout))
	require.NoError(t, err)
	require.Equal(t, "os-update", rollout.Name)

	_, err = manifest.LoadOne[*ranv1.ClusterGroupUpgrade](filepath.Join(t.TempDir(), "none.yaml"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestLoadRefusesOtherKinds(t *testing.T) {
	load := func(text string) error {
		_, err := manifest.LoadOne[*maintenancev1.NodeMaintenance](manifest.Stdin, strings.NewReader(text))
		return err
	}
	require.EqualError(t, load(goodRollout), "stdin: ClusterGroupUpgrade prod/os-update: is not a NodeMaintenance")
	require.EqualError(t, load(strings.Replace(goodRollout, "spec:", "spec:\n  colour: red", 1)), "stdin: ClusterGroupUpgrade prod/os-update: is not a NodeMaintenance",
		"problems of other kinds do not matter")
	require.EqualError(t, load(""), "stdin: holds no objects")
	require.EqualError(t, load("{apiVersion: maintenance.nvidia.com/v1, kind: NodeMaintenance, metadata: {name: r}}"),
		"stdin: NodeMaintenance r: kind NodeMaintenance is read as maintenance.nvidia.com/v1alpha1, not as maintenance.nvidia.com/v1")
	_, err := manifest.LoadOne[*ranv1.ClusterGroupUpgrade](manifest.Stdin, strings.NewReader(goodRollout+"---"+goodRollout))
	require.EqualError(t, err, "stdin: holds 2 objects; give one")
}

func TestCompleteAppliesTheSameRulesToObjectsMadeInCode(t *testing.T) {
	request := &maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Spec:       maintenancev1.NodeMaintenanceSpec{RequestorID: "me.example.com", NodeName: "n1", DrainSpec: &maintenancev1.DrainSpec{}},
	}
	require.NoError(t, manifest.Complete(request))
	require.Equal(t, "NodeMaintenance", request.Kind)
	require.EqualValues(t, 300, *request.Spec.DrainSpec.TimeoutSeconds)
	require.Equal(t, maintenancev1.FailureUncordon, request.Spec.OnFailure)

	request.Spec.RequestorID = "Me!"
	request.Spec.DrainSpec.PodSelector = "app in ("
	require.EqualError(t, manifest.Complete(request), strings.Join([]string{
		"NodeMaintenance n1: spec.drainSpec.podSelector: Invalid value: \"app in (\": unable to parse requirement: found '', expected: ',', ')' or identifier",
		"NodeMaintenance n1: spec.requestorID: Invalid value: \"Me!\": " + requestorRule,
	}, "\n"))

	require.EqualError(t, manifest.Complete(&ranv1.ClusterGroupUpgrade{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec:       ranv1.ClusterGroupUpgradeSpec{Clusters: []string{"c1"}, RemediationStrategy: ranv1.RemediationStrategy{MaxConcurrency: intstr.FromInt32(0)}},
	}), "ClusterGroupUpgrade r: spec.remediationStrategy.maxConcurrency: Invalid value: 0: must be a number of at least 1 or a percentage from 1% to 100%")
}

func TestTheExamplesAreValid(t *testing.T) {
	examples, err := filepath.Glob("../../docs/examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, examples)
	for _, example := range examples {
		text, err := os.ReadFile(example)
		require.NoError(t, err)
		objects, err := manifest.Decode(filepath.Base(example), text)
		require.NoError(t, err)
		require.NotEmpty(t, objects, example)
	}
}
