package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/devstack/propagator"
)

// releaseObjects are the objects in a policy that upgrades the platform and its operators.
const releaseObjects = `[
        {complianceType: musthave, objectDefinition: {apiVersion: config.openshift.io/v1, kind: ClusterVersion, metadata: {name: version},
          spec: {upstream: 'UPSTREAM', channel: stable-4.18, desiredUpdate: {version: 4.18.3}}}},
        {complianceType: musthave, objectDefinition: {apiVersion: operators.coreos.com/v1alpha1, kind: CatalogSource, metadata: {namespace: openshift-marketplace, name: redhat-operators},
          spec: {image: 'registry.example.com/redhat-operator-index:v4.18'}}}]`

// The ConfigMap names the packages, because no policy has a Subscription. The server of the update graph is down when the rollout starts.
func TestAPrecachingRolloutStartsWhenItsUpdateGraphIsBack(t *testing.T) {
	reserve(t, policyHub, "spoke-1", "spoke-2")
	hub, err := propagator.Start(t.Context(), theFleet.Hub.Config, propagator.Options{Takes: func(string, string) time.Duration { return 0 }})
	require.NoError(t, err)
	t.Cleanup(hub.Stop)
	var up atomic.Bool
	graph := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintf(w, `{"nodes":[{"version":"4.18.3","payload":"registry.example.com/release@sha256:%064d"}]}`, 3)
	}))
	t.Cleanup(graph.Close)
	upstream := graph.URL + "/api/upgrades_info/v1/graph"
	createOnHub(t, strings.Replace(informPolicy("platform", "", "spoke-1", "spoke-2"),
		"[{complianceType: musthave, objectDefinition: {apiVersion: v1, kind: ConfigMap, metadata: {name: platform}}}]", strings.Replace(releaseObjects, "UPSTREAM", upstream, 1), 1))
	createOnHub(t, `
apiVersion: v1
kind: ConfigMap
metadata: {namespace: default, name: cluster-group-upgrade-overrides}
data: {operators.packagesAndChannels: "ptp-operator: stable", precache.image: 'registry.example.com/precache:4.18'}`)

	startUnchecked(t, on("spoke-1, spoke-2", "\n  managedPolicies: [platform]\n  policyEnforcement: Override\n  preCaching: true")("precached-by-policies"))
	waiting := awaitStatus(t, "precached-by-policies", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return strings.HasPrefix(conditionMessage(s, ranv1.ConditionValidated), "False InvalidPlatformImage")
	})
	require.Equal(t, "False InvalidPlatformImage: error response from update graph url "+upstream+"?channel=stable-4.18: 503 (requested by policy default/platform): "+
		"Drydock looks it up again; or set spec.overrides.platformImage of a PreCachingConfig", conditionMessage(waiting, ranv1.ConditionValidated))
	up.Store(true)
	ended := awaitStatus(t, "precached-by-policies", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return conditionMessage(s, ranv1.ConditionSucceeded) != ""
	})
	require.Contains(t, conditionMessage(ended, ranv1.ConditionSucceeded), "True Completed: ")
	require.Equal(t, "True PrecachingCompleted: Precaching is completed for all clusters", conditionMessage(ended, ranv1.ConditionPrecachingSucceeded))
	require.Equal(t, &ranv1.PrecachingSpec{
		PlatformImage:                fmt.Sprintf("registry.example.com/release@sha256:%064d", 3),
		OperatorsIndexes:             []string{"registry.example.com/redhat-operator-index:v4.18"},
		OperatorsPackagesAndChannels: []string{"ptp-operator:stable"},
		SpaceRequired:                "35",
	}, ended.Precaching.Spec)
	for _, spoke := range theFleet.Spokes[:2] {
		actions, err := fleet.Actions(spoke)
		require.NoError(t, err)
		require.Contains(t, whatOf(actions), fleet.ActionPreparation, "a Job on %s pulled that", spoke.Name)
	}
}

// whatOf are the kinds of actions.
func whatOf(actions []fleet.Action) []string {
	var kinds []string
	for _, action := range actions {
		kinds = append(kinds, action.What)
	}
	return kinds
}
