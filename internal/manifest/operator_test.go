package manifest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/manifest"
)

// operatorsRollout is an object of the operator whose kind this is, as a hub prints it: with its client's values for unset fields, its finalizer, and
// its status, some of whose fields have other types than ours.
const operatorsRollout = `
apiVersion: v1
kind: List
items:
- apiVersion: ran.openshift.io/v1alpha1
  kind: ClusterGroupUpgrade
  metadata:
    name: site-4
    namespace: ztp-install
    creationTimestamp: "2026-10-12T08:01:02Z"
    finalizers: [ran.openshift.io/cleanup-finalizer]
    generation: 2
    managedFields:
    - {apiVersion: ran.openshift.io/v1alpha1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {}}, manager: manager, operation: Update, time: "2026-10-12T08:01:02Z"}
    ownerReferences:
    - {apiVersion: cluster.open-cluster-management.io/v1, blockOwnerDeletion: true, controller: true, kind: ManagedCluster, name: site-4, uid: 98fdb9b2-51ee-4ee7-8f57-a84f7f35b9d5}
    resourceVersion: "46666836"
    uid: b8be9cd2-764f-4a62-87d6-6b767852c7da
  spec:
    actions:
      afterCompletion:
        addClusterLabels: {ztp-done: ""}
        deleteClusterLabels: {ztp-running: ""}
        deleteObjects: true
      beforeEnable:
        addClusterLabels: {ztp-running: ""}
    backup: false
    clusters: [site-4]
    enable: true
    managedPolicies: [common-config, common-subscriptions]
    manifestWorkTemplates: null
    preCaching: false
    preCachingConfigRef: {}
    remediationStrategy: {maxConcurrency: 1, timeout: 240}
  status:
    computedMaxConcurrency: 1
    clusters:
    - {name: site-4, state: complete}
    managedPoliciesContent: {common-config: "null"}
    managedPoliciesForUpgrade:
    - {name: common-config, namespace: ztp-common}
    status: {currentBatchRemediationProgress: {site-4: {state: InProgress, policyIndex: 0}}}
`

func TestAnObjectOfTheOperatorIsReadUnchanged(t *testing.T) {
	objects, err := manifest.Decode("cgus.yaml", []byte(operatorsRollout))
	require.NoError(t, err)
	require.Len(t, objects, 1)
	spec := objects[0].(*ranv1.ClusterGroupUpgrade).Spec
	require.Equal(t, ranv1.ClusterGroupUpgradeSpec{
		Clusters:            []string{"site-4"},
		Enable:              new(true),
		RemediationStrategy: ranv1.RemediationStrategy{MaxConcurrency: intstr.FromInt32(1), Timeout: 240, Rollout: ranv1.Batched, OfflineAction: ranv1.OfflineDefer},
		BatchTimeoutAction:  ranv1.BatchTimeoutContinue,
		ManagedPolicies:     []string{"common-config", "common-subscriptions"},
		PreCachingConfigRef: &ranv1.ObjectRef{},
		Actions: ranv1.Actions{
			BeforeEnable: &ranv1.BeforeEnable{AddClusterLabels: map[string]string{"ztp-running": ""}},
			AfterCompletion: &ranv1.AfterCompletion{
				AddClusterLabels: map[string]string{"ztp-done": ""}, DeleteClusterLabels: map[string]string{"ztp-running": ""}, DeleteObjects: new(true),
			},
		},
	}, spec)
}
