package e2e

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/precache"
)

// row is a rollout with the conditions that it must have, in order.
type row struct {
	name     string
	manifest func(name string) string
	seen     []seen
}

// seen is an expected condition: its type and the start of its message. then is a drydock command to run afterwards; empty: none.
type seen struct {
	condition, message string
	then               []string
}

// conditionRows are the rows of the table of conditions (docs/reference/rollout-status.md) that no other test covers. Only the rollout whose Job must
// fail maintains nodes.
func conditionRows() []row {
	const (
		validated, succeeded, progressing = ranv1.ConditionValidated, ranv1.ConditionSucceeded, ranv1.ConditionProgressing
		precached, backedUp               = ranv1.ConditionPrecachingSucceeded, ranv1.ConditionBackupSucceeded
		noNodes                           = "\n  nodeMaintenance: {nodeSelector: {matchLabels: {selects: none}}}"
		preCaching                        = noNodes + "\n  preCaching: true\n  preCachingConfigRef: {name: june}"
		aborted                           = "False Aborted: Aborted because too many clusters failed; failed: spoke-6; not started: spoke-1"
	)
	waiting := func(name string, manifest func(string) string, condition, message string) row {
		return row{name, manifest, []seen{
			{condition, "False " + message, nil},
			{progressing, "False InvalidPlan: the plan has errors: ", []string{"upgrade", "cancel", name}},
			{succeeded, "False Cancelled: ", nil},
		}}
	}
	return []row{
		waiting("no-such-clusters", on("nowhere-1, spoke-1, nowhere-2", ""), ranv1.ConditionClustersSelected,
			"ClusterNotFound: Unable to select clusters: cluster nowhere-1 is not a ManagedCluster; cluster nowhere-2 is not a ManagedCluster"),
		waiting("no-such-policies", on("spoke-1", "\n  managedPolicies: [nowhere-1, nowhere-2]"), validated,
			"NotAllManagedPoliciesExist: Missing managed policies: [nowhere-1 nowhere-2]"),
		waiting("duplicate-policy-name", on("spoke-1", "\n  managedPolicies: [twin]"), validated,
			`AmbiguousManagedPoliciesNames: Managed policy name should be unique, but was found in multiple namespaces: {"twin":["default","kube-public"]}`),
		waiting("two-releases", on("spoke-1", "\n  managedPolicies: [older, newer]"), validated,
			"InvalidPlatformImage: platform image defined more than once with conflicting version values: 4.18.3 in policy default/older, 4.18.4 in policy default/newer"),
		waiting("wrong-order", on("spoke-1", "\n  managedPolicies: [upper, lower]"), validated,
			"UnresolvableDenpendency: Managed Policy upper depends on lower, which is to be remediated later"),
		waiting("no-such-template", on("spoke-1", "\n  manifestWorkTemplates: [nowhere-1]"), validated,
			"NotAllManifestTemplatesExist: Missing manifest templates: [nowhere-1]"),
		waiting("no-precaching-config", on("spoke-1", noNodes+"\n  preCaching: true\n  preCachingConfigRef: {name: nowhere}"), ranv1.ConditionPrecacheSpecValid,
			`PrecacheSpecIncomplete: Precaching spec is incomplete: failed to get PreCachingConfig resource due to PreCachingConfig.ran.openshift.io "nowhere" not found`),
		{"precaching-failed", on("spoke-2", preCaching), []seen{
			{precached, "False Failed: Precaching failed for all clusters; failed: spoke-2", nil}, {succeeded, "False Failed: ", nil},
		}},
		{"partially-precached", on("spoke-2, spoke-3", preCaching), []seen{
			{precached, "True PartiallyDone: Precaching failed for 1 clusters; failed: spoke-2", nil},
			{succeeded, "False Failed: Failed on 1 of 2 clusters; failed: spoke-2", nil},
		}},
		{"precached", on("spoke-4", preCaching), []seen{
			{ranv1.ConditionClustersSelected, "True ClusterSelectionCompleted: All selected clusters are valid", nil},
			{validated, "True ValidationCompleted: Completed validation", nil},
			{precached, "False InProgress: Precaching is not completed", []string{"release", "--cluster", "spoke-4"}},
			{precached, "True PrecachingCompleted: Precaching is completed for all clusters", nil},
			{progressing, "False Completed: ", nil},
			{succeeded, "True Completed: ", nil},
		}},
		{"backed-up", on("spoke-5", noNodes+"\n  backup: true"), []seen{
			{progressing, "False NotStarted: The Cluster backup is in progress", nil},
			{backedUp, "False InProgress: Backup is in progress for 1 clusters", []string{"release", "--cluster", "spoke-5"}},
			{backedUp, "True BackupCompleted: Backup is completed for all clusters", nil},
			{succeeded, "True Completed: ", nil},
		}},
		{"unapproved", on("spoke-1", noNodes+"\n  approvals: {beforeEachBatch: true}"), []seen{
			{progressing, "True InProgress: WaitingForApproval; ", []string{"upgrade", "pause", "unapproved"}},
			{progressing, "True InProgress: Paused; ", []string{"upgrade", "cancel", "unapproved"}},
			{progressing, "False Cancelled: ", nil},
			{succeeded, "False Cancelled: ", nil},
		}},
		{"approval-expires", on("spoke-1", noNodes+"\n  approvals: {beforeEachBatch: true, expiry: 60}"), []seen{
			{progressing, "True InProgress: WaitingForApproval; ", []string{"upgrade", "cancel", "approval-expires"}},
			{succeeded, "False Cancelled: ", nil},
		}},
		{"outside-window", on("spoke-1", noNodes+"\n  maintenanceWindows: [undefined]"), []seen{
			{progressing, "True InProgress: WaitingForWindow; ", []string{"upgrade", "cancel", "outside-window"}},
			{succeeded, "False Cancelled: ", nil},
		}},
		{"soaking", func(name string) string {
			return withStrategy(on("spoke-1, spoke-3", noNodes)(name), "maxConcurrency: 1, soakSeconds: 3600")
		}, []seen{
			{progressing, "True InProgress: Soaking; ", []string{"upgrade", "cancel", "soaking"}},
			{succeeded, "False Cancelled: ", nil},
		}},
		waiting("without-credentials", on("spoke-1, unreached-1, unreached-2", noNodes), validated,
			"ClusterUnreachable: no worker has credentials for unreached-1, unreached-2: "),
		{"too-many-failed", func(name string) string {
			return withStrategy(rolloutWithJob(name, "1", "spoke-6", "spoke-1"), "maxConcurrency: 1, maxFailures: 1")
		}, []seen{{progressing, aborted, nil}, {succeeded, aborted, nil}}},
	}
}

// on returns a rollout over clusters, with additional spec.
func on(clusters, more string) func(name string) string {
	return func(name string) string {
		return fmt.Sprintf(`
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {namespace: default, name: %s}
spec:
  clusters: [%s]
  remediationStrategy: {maxConcurrency: 1, timeout: 60}%s`, name, clusters, more)
	}
}

// aPolicy returns a policy with an optional dependency.
func aPolicy(name, namespace, dependsOn string) string {
	policy, _, _ := strings.Cut(informPolicy(name, ""), "\n---\n")
	policy = strings.Replace(policy, "namespace: default", "namespace: "+namespace, 1)
	if dependsOn != "" {
		dependency := "{apiVersion: policy.open-cluster-management.io/v1, kind: Policy, name: " + dependsOn + ", compliance: Compliant}"
		policy = strings.Replace(policy, "disabled: false", "disabled: false\n  dependencies: ["+dependency+"]", 1)
	}
	return policy
}

// reportNonCompliant writes in the status of a policy that it is bound to a cluster, which does not comply.
func reportNonCompliant(t *testing.T, policy, cluster string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(policy), &object.Object))
	status := fmt.Sprintf(`{"status":{"status":[{"clustername":%q,"clusternamespace":%q,"compliant":"NonCompliant"}]}}`, cluster, cluster)
	require.NoError(t, hubClient(t).Status().Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(status))))
}

// releasing returns a policy that requires a release of the platform.
func releasing(name, version string) string {
	return strings.Replace(aPolicy(name, "default", ""), "apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+"}",
		"apiVersion: config.openshift.io/v1, kind: ClusterVersion, metadata: {name: version}, "+
			"spec: {upstream: 'https://updates.example.com/graph', channel: stable-4.18, desiredUpdate: {version: "+version+"}}", 1)
}

// One spoke does not permit precaching Jobs. Two are held until the test has seen the conditions of their waiting rollouts.
func TestRolloutsReachTheDocumentedConditions(t *testing.T) {
	reserve(t, policyHub, "spoke-1", "spoke-2", "spoke-3", "spoke-4", "spoke-5", "spoke-6")
	require.NoError(t, theFleet.Hub.Apply(t.Context(), "docs/examples/precaching-config.yaml"))
	for _, policy := range []string{aPolicy("twin", "default", ""), aPolicy("twin", "kube-public", ""), aPolicy("upper", "default", "lower"), aPolicy("lower", "default", ""), releasing("older", "4.18.3"), releasing("newer", "4.18.4")} {
		createOnHub(t, policy)
		reportNonCompliant(t, policy, "spoke-1")
	}
	register(t, "unreached-1", nil)
	register(t, "unreached-2", nil)
	withoutJobPermission(t, theFleet.Cluster("spoke-2"), precache.NamespacePrecaching)
	for _, held := range []string{"spoke-4", "spoke-5"} {
		succeeds(t, "hold", "--cluster", held)
		t.Cleanup(func() { _ = theFleet.Run(context.Background(), io.Discard, "release", "--cluster", held) })
	}
	var rows sync.WaitGroup
	for _, row := range conditionRows() {
		rows.Go(func() { t.Run(row.name, row.run) })
	}
	rows.Wait()
}

func (r row) run(t *testing.T) {
	startUnchecked(t, r.manifest(r.name))
	for _, seen := range r.seen {
		awaitStatus(t, r.name, func(s ranv1.ClusterGroupUpgradeStatus) bool {
			return strings.HasPrefix(conditionMessage(s, seen.condition), seen.message)
		})
		if seen.then != nil {
			succeeds(t, seen.then...)
		}
	}
}
