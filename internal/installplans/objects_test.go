package installplans_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/installplans"
)

func TestCachesKeepOfInstallPlansWhatDecisionsRead(t *testing.T) {
	const plan = `
metadata: {name: install-abc, managedFields: [{manager: olm}]}
spec: {approval: Manual, approved: false, clusterServiceVersionNames: [ptp.v2, amq.v1]}
status:
  phase: RequiresApproval
  bundleLookups: [{path: registry.example.com/bundle}]
  plan:
  - {resolving: ptp.v2, resource: {group: operators.coreos.com, kind: ClusterServiceVersion, name: ptp.v2, manifest: long}}
  - {resolving: amq.v1, resource: {group: operators.coreos.com, kind: Subscription, name: amq-stable, manifest: long}}
`
	whole := parse(t, plan)
	read := installplans.ReadPlan(whole)
	trimmed, err := installplans.TrimObject(whole)
	require.NoError(t, err)
	require.Equal(t, whole, trimmed)
	require.Equal(t, read, installplans.ReadPlan(whole))
	require.Equal(t, []string{"amq.v1"}, read.Dependencies)
	kept, err := yaml.Marshal(whole.Object)
	require.NoError(t, err)
	require.NotContains(t, string(kept), "long")
	require.NotContains(t, string(kept), "bundle")
	require.NotContains(t, string(kept), "olm")

	view := parse(t, "metadata: {name: v}\nstatus: {result: {}}")
	view.Object["status"].(map[string]any)["result"] = parse(t, plan).Object
	_, err = installplans.TrimObject(view)
	require.NoError(t, err)
	kept, err = yaml.Marshal(view.Object)
	require.NoError(t, err)
	require.NotContains(t, string(kept), "long")
	require.Contains(t, string(kept), "amq-stable")
}
