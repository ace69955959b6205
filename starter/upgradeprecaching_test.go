package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/rollout"
)

func TestAPlanShowsWhatIsPrecachedAndWhy(t *testing.T) {
	isolate(t)
	hub := `{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: spoke-1}}
---
apiVersion: policy.open-cluster-management.io/v1
kind: Policy
metadata: {namespace: prod, name: du}
spec:
  remediationAction: inform
  policy-templates:
  - objectDefinition:
      kind: ConfigurationPolicy
      spec:
        object-templates:
        - complianceType: musthave
          objectDefinition:
            apiVersion: config.openshift.io/v1
            kind: ClusterVersion
            spec: {upstream: 'https://updates.example.com/graph', channel: stable-4.18, desiredUpdate: {version: 4.18.3}}
        - {complianceType: musthave, objectDefinition: {apiVersion: operators.coreos.com/v1alpha1, kind: CatalogSource, metadata: {namespace: m, name: redhat}, spec: {image: 'redhat:4.18'}}}
        - {complianceType: musthave, objectDefinition: {apiVersion: operators.coreos.com/v1alpha1, kind: Subscription, metadata: {namespace: p, name: ptp}, spec: {name: ptp, channel: stable}}}
status: {status: [{clustername: spoke-1, compliant: NonCompliant}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: prod, name: cluster-group-upgrade-overrides}
data: {operators.packagesAndChannels: "ptp: stable\nsriov: stable\n", precache.image: 'pull:1'}
`
	object := file(t, "cgu.yaml", `
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {name: november, namespace: prod}
spec:
  clusters: [spoke-1]
  managedPolicies: [du]
  preCaching: true
  remediationStrategy: {maxConcurrency: 1}
`)
	require.Equal(t, `rollout prod/november: 1 cluster in 1 batch, at most 1 at once
BATCH   CLUSTER   NOTE
1       spoke-1   from policy du
PRECACHED                      VALUE                     FROM
platformImage                  the rollout looks it up   version 4.18.3 of channel stable-4.18 in update graph https://updates.example.com/graph
operatorsIndexes               redhat:4.18               policy prod/du
operatorsPackagesAndChannels   ptp:stable                ConfigMap prod/cluster-group-upgrade-overrides
                               sriov:stable
spaceRequired                  35 GiB                    default
preCacheImage                  pull:1                    ConfigMap prod/cluster-group-upgrade-overrides
`, succeeds(t, "upgrade", "plan", "-f", object, "--snapshot", file(t, "hub.yaml", hub)))

	withoutCatalog := strings.Replace(hub, "image: 'redhat:4.18'", "address: 'catalog:50051'", 1)
	require.Contains(t, succeeds(t, "upgrade", "plan", "-f", object, "--snapshot", file(t, "hub.yaml", withoutCatalog)),
		"\nthe operators of ConfigMap prod/cluster-group-upgrade-overrides are not pulled, because no policy of the rollout has a CatalogSource with an image")
	plan := parsed[rollout.Plan](t, "upgrade", "plan", "-f", object, "--snapshot", file(t, "hub.yaml", hub))
	require.Equal(t, "4.18.3", plan.Release.Version)
}
