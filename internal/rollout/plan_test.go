package rollout_test

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
)

var noon = time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)

// rolloutOf is a rollout of node maintenance over clusters, after these changes.
func rolloutOf(concurrency any, clusters []string, changes ...func(*ranv1.ClusterGroupUpgradeSpec)) *ranv1.ClusterGroupUpgrade {
	cgu := &ranv1.ClusterGroupUpgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "os-update"}}
	cgu.Spec.Clusters = clusters
	cgu.Spec.NodeMaintenance = &ranv1.NodeMaintenanceRemediation{}
	switch concurrency := concurrency.(type) {
	case int:
		cgu.Spec.RemediationStrategy.MaxConcurrency = intstr.FromInt32(int32(concurrency))
	case string:
		cgu.Spec.RemediationStrategy.MaxConcurrency = intstr.FromString(concurrency)
	}
	for _, change := range changes {
		change(&cgu.Spec)
	}
	return cgu
}

func canaries(names ...string) func(*ranv1.ClusterGroupUpgradeSpec) {
	return func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.RemediationStrategy.Canaries = names }
}

func labelled(selectors ...map[string]string) func(*ranv1.ClusterGroupUpgradeSpec) {
	return func(spec *ranv1.ClusterGroupUpgradeSpec) {
		for _, labels := range selectors {
			spec.ClusterLabelSelectors = append(spec.ClusterLabelSelectors, metav1.LabelSelector{MatchLabels: labels})
		}
	}
}

func oldSelectors(texts ...string) func(*ranv1.ClusterGroupUpgradeSpec) {
	return func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.ClusterSelector = texts }
}

func managing(policies ...string) func(*ranv1.ClusterGroupUpgradeSpec) {
	return func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.NodeMaintenance = nil
		spec.ManagedPolicies = policies
	}
}

// fleet is c1 to c6; c1 and c4 are in zone a, and c5 has an empty label old.
func fleet() []rollout.Cluster {
	return []rollout.Cluster{
		{Name: "c6"},
		{Name: "c5", Labels: map[string]string{"old": ""}},
		{Name: "c4", Labels: map[string]string{"zone": "a"}},
		{Name: "c3", Labels: map[string]string{"zone": "b"}},
		{Name: "c2"},
		{Name: "c1", Labels: map[string]string{"zone": "a", "old": "yes"}},
	}
}

func TestPlanOfClusters(t *testing.T) {
	tests := []struct {
		name        string
		cgu         *ranv1.ClusterGroupUpgrade
		concurrency int32
		batches     [][]string
	}{
		{"listed clusters keep their order, in batches", rolloutOf(2, []string{"c3", "c1", "c2"}), 2, [][]string{{"c3", "c1"}, {"c2"}}},
		{"a duplicate cluster counts once", rolloutOf(5, []string{"c1", "c2", "c1"}), 2, [][]string{{"c1", "c2"}}},
		{"selected clusters follow by name, each once", rolloutOf(9, []string{"c4"}, labelled(map[string]string{"zone": "b"}, map[string]string{"zone": "a"}), oldSelectors("zone=a")), 3, [][]string{{"c4", "c1", "c3"}}},
		{"an old selector with only a key matches an empty value", rolloutOf(9, nil, oldSelectors("old")), 1, [][]string{{"c5"}}},
		{"an empty selector matches every cluster", rolloutOf(9, nil, labelled(nil)), 6, [][]string{{"c1", "c2", "c3", "c4", "c5", "c6"}}},
		{"a selector without a match is an empty rollout", rolloutOf(2, nil, labelled(map[string]string{"zone": "z"})), 0, [][]string{}},
		{"canaries go first, each alone, in their order, once", rolloutOf(2, []string{"c1", "c2", "c3", "c4", "c5"}, canaries("c4", "c2", "c4")), 2, [][]string{{"c4"}, {"c2"}, {"c1", "c3"}, {"c5"}}},
		{"a percentage rounds down", rolloutOf("50%", []string{"c1", "c2", "c3", "c4", "c5"}), 2, [][]string{{"c1", "c2"}, {"c3", "c4"}, {"c5"}}},
		{"a percentage is at least one cluster", rolloutOf("1%", []string{"c1", "c2"}), 1, [][]string{{"c1"}, {"c2"}}},
		{"a percentage counts selected clusters, canaries too", rolloutOf("50%", []string{"c1", "c2", "c3", "c4"}, canaries("c1", "c2")), 2, [][]string{{"c1"}, {"c2"}, {"c3", "c4"}}},
		{"without a remediation no cluster needs work", rolloutOf(2, []string{"c1", "c2"}, managing()), 2, [][]string{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan := rollout.NewPlan(test.cgu, rollout.Inventory{Clusters: fleet()}, noon)
			require.Empty(t, plan.Problems())
			require.True(t, plan.Valid())
			require.Equal(t, test.concurrency, plan.ComputedMaxConcurrency)
			require.Equal(t, test.batches, plan.RemediationPlan)
		})
	}
}

func TestAnInvalidSelectionReportsAllErrors(t *testing.T) {
	tests := []struct {
		name, message string
		cgu           *ranv1.ClusterGroupUpgrade
	}{
		{
			"missing clusters", "Unable to select clusters: cluster c8 is not a ManagedCluster; cluster c9 is not a ManagedCluster",
			rolloutOf(1, []string{"c8", "c1", "c9", "c8"}),
		},
		{
			"many missing clusters and canaries",
			"Unable to select clusters: 5 clusters are not ManagedClusters, such as x1, x2, x3; 4 canaries are not in the list of clusters, such as y1, y2, y3",
			rolloutOf(1, []string{"x1", "x2", "x3", "c1", "x4", "x5"}, canaries("y1", "y2", "y3", "y4")),
		},
		{
			"canaries that are not selected", "Unable to select clusters: canary cluster c3 is not in the list of clusters; canary cluster c4 is not in the list of clusters",
			rolloutOf(1, []string{"c1"}, canaries("c3", "c1", "c4", "c3")),
		},
		{
			"missing clusters and canaries together", "Unable to select clusters: cluster c9 is not a ManagedCluster; canary cluster c3 is not in the list of clusters",
			rolloutOf(1, []string{"c9"}, canaries("c9", "c3")),
		},
		{"no cluster selection", "Unable to select clusters: nothing to select from: set spec.clusters, spec.clusterLabelSelectors or spec.clusterSelector", rolloutOf(1, nil)},
		{
			"an invalid selector", `Unable to select clusters: spec.clusterLabelSelectors[0].matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator`,
			rolloutOf(1, nil, func(spec *ranv1.ClusterGroupUpgradeSpec) {
				spec.ClusterLabelSelectors = []metav1.LabelSelector{{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}}
			}),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan := rollout.NewPlan(test.cgu, rollout.Inventory{Clusters: fleet()}, noon)
			require.False(t, plan.Valid())
			require.Equal(t, []string{test.message}, plan.Problems())
			require.Equal(t, []metav1.Condition{{
				Type: "ClustersSelected", Status: "False", Reason: "ClusterNotFound", Message: test.message, LastTransitionTime: metav1.NewTime(noon),
			}}, plan.Conditions)
			require.Empty(t, plan.RemediationPlan)
			require.Zero(t, plan.ComputedMaxConcurrency)
		})
	}
}

// compliance of clusters with a policy; listed clusters are bound to it.
type compliance = map[string]bool

func policy(name string, clusters compliance, changes ...func(*rollout.Policy)) rollout.Policy {
	p := rollout.Policy{Namespace: "default", Name: name, Compliant: clusters}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func enforces(p *rollout.Policy)    { p.Enforces = true }
func readsStatus(p *rollout.Policy) { p.ReadsStatus = true }
func elsewhere(p *rollout.Policy)   { p.Namespace = "elsewhere" }
func broken(p *rollout.Policy)      { p.Invalid = "spec.policy-templates[0]: objectDefinition is missing" }

func TestPlanOfPolicies(t *testing.T) {
	type plan struct {
		batches                     [][]string
		forUpgrade, compliantBefore []string
		start                       map[string]int
		skipped                     []string
		validated                   string
	}
	tests := []struct {
		name     string
		cgu      *ranv1.ClusterGroupUpgrade
		policies []rollout.Policy
		want     plan
	}{
		{
			name: "a cluster starts with its first policy that is bound and not compliant",
			cgu:  rolloutOf(2, []string{"c1", "c2", "c3"}, managing("p1", "p2")),
			policies: []rollout.Policy{
				policy("p2", compliance{"c1": false, "c2": false, "c3": false}), policy("p1", compliance{"c1": false, "c2": true}),
			},
			want: plan{
				batches: [][]string{{"c1", "c2"}, {"c3"}}, forUpgrade: []string{"p1", "p2"}, compliantBefore: []string{},
				start: map[string]int{"c1": 0, "c2": 1, "c3": 1}, validated: "Completed validation",
			},
		},
		{
			name:     "clusters that need no work are in no batch",
			cgu:      rolloutOf(2, []string{"c1", "c2", "c3", "c4"}, managing("p1"), canaries("c2", "c4")),
			policies: []rollout.Policy{policy("p1", compliance{"c1": false, "c2": true, "c4": false})},
			want: plan{
				batches: [][]string{{"c4"}, {"c1"}}, forUpgrade: []string{"p1"}, compliantBefore: []string{},
				start: map[string]int{"c1": 0, "c4": 0}, skipped: []string{"c2 AlreadyCompliant", "c3 NotBound"}, validated: "Completed validation",
			},
		},
		{
			name: "a policy that every selected cluster is compliant with is left out, and the index counts without it",
			cgu:  rolloutOf(1, []string{"c1", "c2"}, managing("p1", "p2")),
			policies: []rollout.Policy{
				policy("p1", compliance{"c1": true, "c2": true, "c3": false}), policy("p2", compliance{"c1": false, "c2": true}),
			},
			want: plan{
				batches: [][]string{{"c1"}}, forUpgrade: []string{"p2"}, compliantBefore: []string{"p1"},
				start: map[string]int{"c1": 0}, skipped: []string{"c2 AlreadyCompliant"}, validated: "Completed validation",
			},
		},
		{
			name:     "a policy that is not bound to every selected cluster stays",
			cgu:      rolloutOf(1, []string{"c1", "c2"}, managing("p1")),
			policies: []rollout.Policy{policy("p1", compliance{"c1": true})},
			want: plan{
				batches: [][]string{}, forUpgrade: []string{"p1"}, compliantBefore: []string{},
				start: map[string]int{}, skipped: []string{"c1 AlreadyCompliant", "c2 NotBound"}, validated: "Completed validation",
			},
		},
		{
			name:     "a policy whose templates read status stays",
			cgu:      rolloutOf(1, []string{"c1"}, managing("p1")),
			policies: []rollout.Policy{policy("p1", compliance{"c1": true}, readsStatus)},
			want: plan{
				batches: [][]string{}, forUpgrade: []string{"p1"}, compliantBefore: []string{},
				start: map[string]int{}, skipped: []string{"c1 AlreadyCompliant"}, validated: "Completed validation",
			},
		},
		{
			name:     "a policy that already enforces is left out, with a message",
			cgu:      rolloutOf(1, []string{"c1"}, managing("p1", "p2")),
			policies: []rollout.Policy{policy("p1", compliance{"c1": false}, enforces), policy("p2", compliance{"c1": false})},
			want: plan{
				batches: [][]string{{"c1"}}, forUpgrade: []string{"p2"}, compliantBefore: []string{},
				start: map[string]int{"c1": 0}, validated: "Completed validation; policy default/p1 is left out because it already enforces",
			},
		},
		{
			name:     "a policy of the same name that is bound to no selected cluster is ignored",
			cgu:      rolloutOf(1, []string{"c1"}, managing("p1")),
			policies: []rollout.Policy{policy("p1", compliance{"c1": false}), policy("p1", compliance{"c2": false}, elsewhere)},
			want: plan{
				batches: [][]string{{"c1"}}, forUpgrade: []string{"p1"}, compliantBefore: []string{},
				start: map[string]int{"c1": 0}, validated: "Completed validation",
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := rollout.NewPlan(test.cgu, rollout.Inventory{Clusters: fleet(), Policies: test.policies}, noon)
			require.True(t, got.Valid(), got.Problems())
			var skipped []string
			for _, cluster := range got.Skipped {
				skipped = append(skipped, cluster.Cluster+" "+cluster.Reason)
			}
			require.Equal(t, test.want, plan{
				got.RemediationPlan, got.ManagedPoliciesForUpgrade, got.ManagedPoliciesCompliantBeforeUpgrade, got.StartPolicyIndex,
				skipped, got.Conditions[1].Message,
			})
		})
	}
}

func TestASkippedClusterHasAReason(t *testing.T) {
	cgu := rolloutOf(1, []string{"c1", "c2"}, managing("p1", "p2"))
	skipped := func(policies ...rollout.Policy) map[string]string {
		messages := map[string]string{}
		for _, cluster := range rollout.NewPlan(cgu, rollout.Inventory{Clusters: fleet(), Policies: policies}, noon).Skipped {
			messages[cluster.Cluster] = cluster.Reason + ": " + cluster.Message
		}
		return messages
	}
	const (
		unbound  = "NotBound: no policy of the rollout is bound to the cluster"
		complies = "AlreadyCompliant: compliant with every policy of the rollout that is bound to the cluster"
		enforced = "AlreadyEnforced: the cluster does not comply with policies that the rollout leaves out because they enforce already: [p1]"
	)
	require.Equal(t, map[string]string{"c2": unbound}, skipped(policy("p1", compliance{"c1": false}), policy("p2", compliance{"c1": false})))
	require.Equal(t, map[string]string{"c2": complies}, skipped(policy("p1", compliance{"c1": false, "c2": true}), policy("p2", compliance{"c1": false})))
	require.Equal(t, map[string]string{"c1": complies, "c2": complies},
		skipped(policy("p1", compliance{"c1": true, "c2": true}), policy("p2", compliance{"c1": true, "c2": true})), "also with policies that are left out")
	require.Equal(t, map[string]string{"c1": complies, "c2": enforced},
		skipped(policy("p1", compliance{"c1": true, "c2": false}, enforces), policy("p2", compliance{"c1": true, "c2": true})))
}

func TestAnInvalidChoiceOfPoliciesReportsAllErrors(t *testing.T) {
	tests := []struct {
		name, reason, message string
		policies              []rollout.Policy
	}{
		{
			name: "policies that do not exist", reason: "NotAllManagedPoliciesExist", message: "Missing managed policies: [p1 p2]",
		},
		{
			name: "a policy whose templates cannot be read", reason: "NotAllManagedPoliciesExist",
			message:  "Missing managed policies: [p2]; Invalid managed policies: [p1]; policy default/p1: spec.policy-templates[0]: objectDefinition is missing",
			policies: []rollout.Policy{policy("p1", compliance{"c1": false}, broken)},
		},
		{
			name: "a policy that is bound to no selected cluster", reason: "NotAllManagedPoliciesExist",
			message: "Missing managed policies: [p1 p2]; policy default/p1 is bound to none of the selected clusters (c1): bind it to them with a PlacementBinding" +
				"; policy default/p2 is bound to none of the selected clusters (c1): bind it to them with a PlacementBinding",
			policies: []rollout.Policy{policy("p1", compliance{"c2": true}), policy("p2", compliance{}, enforces)},
		},
		{
			name: "an ambiguous name", reason: "AmbiguousManagedPoliciesNames",
			message:  `Managed policy name should be unique, but was found in multiple namespaces: {"p1":["default","elsewhere"]}; Missing managed policies: [p2]`,
			policies: []rollout.Policy{policy("p1", compliance{"c1": false}, elsewhere), policy("p1", compliance{"c1": true})},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan := rollout.NewPlan(rolloutOf(1, []string{"c1"}, managing("p1", "p2")), rollout.Inventory{Clusters: fleet(), Policies: test.policies}, noon)
			require.False(t, plan.Valid())
			require.Equal(t, "Validated", plan.Conditions[1].Type)
			require.Equal(t, test.reason, plan.Conditions[1].Reason)
			require.Equal(t, test.message, plan.Conditions[1].Message)
			require.Empty(t, plan.RemediationPlan)
		})
	}
}

func TestManifestWorkTemplatesMustExistInTheRolloutsNamespaceAndBeReadable(t *testing.T) {
	cgu := rolloutOf(1, []string{"c1"}, func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.NodeMaintenance = nil
		spec.ManifestWorkTemplates = []string{"a", "b"}
	})
	inventory := rollout.Inventory{Clusters: fleet(), ManifestWorkTemplates: []rollout.Template{
		{NamespacedName: types.NamespacedName{Namespace: "prod", Name: "a"}}, {NamespacedName: types.NamespacedName{Namespace: "other", Name: "b"}},
	}}
	plan := rollout.NewPlan(cgu, inventory, noon)
	require.Equal(t, []string{"Missing manifest templates: [b]"}, plan.Problems())
	require.Equal(t, "NotAllManifestTemplatesExist", plan.Conditions[1].Reason)

	inventory.ManifestWorkTemplates[0].Invalid = "the expectation is not a list"
	plan = rollout.NewPlan(cgu, inventory, noon)
	require.Equal(t, []string{"Missing manifest templates: [b]; Invalid manifest templates: [a]; manifest template prod/a: the expectation is not a list"}, plan.Problems())
	inventory.ManifestWorkTemplates[0].Invalid = ""

	inventory.ManifestWorkTemplates[1].Namespace = "prod"
	require.Equal(t, [][]string{{"c1"}}, rollout.NewPlan(cgu, inventory, noon).RemediationPlan)
}

func TestAPlanHasTheDocumentedJSON(t *testing.T) {
	plan := rollout.NewPlan(rolloutOf(2, []string{"c1", "c2"}, managing("p1", "p2")), rollout.Inventory{Clusters: fleet(), Policies: []rollout.Policy{
		policy("p1", compliance{"c1": true, "c2": true}), policy("p2", compliance{"c1": false, "c2": true}),
	}}, noon)
	text, err := json.Marshal(plan)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"computedMaxConcurrency": 2,
		"remediationPlan": [["c1"]],
		"managedPoliciesForUpgrade": ["p2"],
		"managedPoliciesCompliantBeforeUpgrade": ["p1"],
		"startPolicyIndex": {"c1": 0},
		"conditions": [
			{"type": "ClustersSelected", "status": "True", "reason": "ClusterSelectionCompleted", "message": "All selected clusters are valid", "lastTransitionTime": "2026-01-10T12:00:00Z"},
			{"type": "Validated", "status": "True", "reason": "ValidationCompleted", "message": "Completed validation", "lastTransitionTime": "2026-01-10T12:00:00Z"}
		],
		"skipped": [{"cluster": "c2", "reason": "AlreadyCompliant", "message": "compliant with every policy of the rollout that is bound to the cluster"}]
	}`, string(text))
}

func TestAPlanListsPoliciesThatAreNotBoundByCluster(t *testing.T) {
	inventory := rollout.Inventory{
		Clusters: []rollout.Cluster{{Name: "c1"}, {Name: "c2"}, {Name: "c3"}},
		Policies: []rollout.Policy{policy("p1", compliance{"c1": false, "c2": true}), policy("p2", compliance{"c1": true, "c2": false, "c3": true}), policy("p3", compliance{"c2": false})},
	}
	plan := rollout.NewPlan(rolloutOf(1, []string{"c1", "c2", "c3"}, managing("p1", "p2", "p3")), inventory, noon)
	require.Equal(t, map[string][]int{"c1": {2}}, plan.NotBound, "c3 is skipped")
}

// today is a current hub.
var today = &rollout.HubAPIs{Overrides: true, Placements: true}

func TestPoliciesAreEnforcedByTheBestWayOfTheHub(t *testing.T) {
	status := func(by ranv1.PolicyEnforcement, placements ranv1.PlacementKind) *ranv1.EnforcementStatus {
		return &ranv1.EnforcementStatus{By: by, Placements: placements}
	}
	for _, tt := range []struct {
		name    string
		hub     *rollout.HubAPIs
		spec    ranv1.PolicyEnforcement
		want    *ranv1.EnforcementStatus
		problem string
	}{
		{"a current hub", today, "", status(ranv1.EnforceOverride, ranv1.KindPlacement), ""},
		{"a hub without overrides", &rollout.HubAPIs{Placements: true}, "", status(ranv1.EnforceCopy, ranv1.KindPlacement), ""},
		{"an old hub", &rollout.HubAPIs{}, "", status(ranv1.EnforceCopy, ranv1.KindPlacementRule), ""},
		{"overrides without Placements", &rollout.HubAPIs{Overrides: true}, "", status(ranv1.EnforceCopy, ranv1.KindPlacementRule), ""},
		{"the spec decides", today, ranv1.EnforceCopy, status(ranv1.EnforceCopy, ranv1.KindPlacement), ""},
		{"Override with PlacementRules", &rollout.HubAPIs{Overrides: true}, ranv1.EnforceOverride, status(ranv1.EnforceOverride, ranv1.KindPlacementRule), ""},
		{
			"Override on a hub without overrides", &rollout.HubAPIs{Placements: true}, ranv1.EnforceOverride, status(ranv1.EnforceOverride, ranv1.KindPlacement),
			"Invalid managed policies: [p1]; policy default/p1: the PlacementBindings of this hub have no bindingOverrides: use policyEnforcement Copy",
		},
		{"a file that does not tell", nil, ranv1.EnforceOverride, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cgu := rolloutOf(1, []string{"c1"}, managing("p1"))
			cgu.Spec.PolicyEnforcement = tt.spec
			plan := rollout.NewPlan(cgu, rollout.Inventory{
				Clusters: []rollout.Cluster{{Name: "c1", Labels: map[string]string{"name": "c1"}}},
				Policies: []rollout.Policy{policy("p1", compliance{"c1": false})}, Hub: tt.hub,
			}, noon)
			require.Equal(t, tt.want, plan.PolicyEnforcement)
			require.Equal(t, tt.problem, strings.Join(plan.Problems(), "; "))
		})
	}
}

func TestARolloutWaitsForLabelsByWhichPlacementsSelect(t *testing.T) {
	inventory := rollout.Inventory{
		Clusters: []rollout.Cluster{
			{Name: "c1", Labels: map[string]string{"name": "c1"}}, {Name: "c2"}, {Name: "c3", Labels: map[string]string{"name": "c1"}}, {Name: "c4"}, {Name: "c5"},
		},
		Policies: []rollout.Policy{policy("p1", compliance{"c1": false, "c2": false, "c3": false, "c4": true, "c5": false})},
		Hub:      &rollout.HubAPIs{},
	}
	cgu := rolloutOf(1, []string{"c1", "c2", "c3", "c4"}, managing("p1"))
	require.Equal(t, "Completed validation", rollout.NewPlan(cgu, inventory, noon).Conditions[1].Message, "PlacementRules list names")
	inventory.Hub = today
	plan := rollout.NewPlan(cgu, inventory, noon)
	require.False(t, plan.Valid())
	require.Equal(t, ranv1.ReasonWaitingForPlacement, plan.Conditions[1].Reason)
	require.Equal(t, "Placements pick clusters by their label name, which is missing or another on ManagedClusters: c2, c3", plan.Conditions[1].Message)
}

func TestARolloutWaitsForClusterSetBindings(t *testing.T) {
	in := func(set string) map[string]string {
		return map[string]string{"cluster.open-cluster-management.io/clusterset": set}
	}
	bound := func(sets ...policies.ClusterSet) map[string][]policies.ClusterSet {
		return map[string][]policies.ClusterSet{"default": sets}
	}
	for _, tt := range []struct {
		name  string
		bound map[string][]policies.ClusterSet
		want  string
	}{
		{"no set is bound", bound(), "Placements in namespace default cannot pick ManagedClusters yet: create the ManagedClusterSetBindings there for the sets factory, global (for: c1, c2, c3)"},
		{"some sets are bound", bound(policies.ClusterSet{Name: "global-not"}, policies.ClusterSet{Name: "factory"}), "Placements in namespace default cannot pick ManagedClusters yet: create the ManagedClusterSetBindings there for the sets global (for: c2)"},
		{"the global set is bound", bound(policies.ClusterSet{Name: "global"}), ""},
		{"a set that selects clusters by other labels is bound", bound(policies.ClusterSet{Name: "factory"}, policies.ClusterSet{Name: "some", Selector: labels.SelectorFromSet(labels.Set{"name": "c2"})}), ""},
		{"the hub does not have such bindings", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inventory := rollout.Inventory{
				Clusters:  []rollout.Cluster{{Name: "c1", Labels: in("factory")}, {Name: "c2"}, {Name: "c3", Labels: in("factory")}, {Name: "c4"}},
				Policies:  []rollout.Policy{policy("p1", compliance{"c1": false, "c2": false, "c3": false, "c4": true})},
				Hub:       today,
				BoundSets: tt.bound,
			}
			for i := range inventory.Clusters {
				if inventory.Clusters[i].Labels == nil {
					inventory.Clusters[i].Labels = map[string]string{}
				}
				inventory.Clusters[i].Labels["name"] = inventory.Clusters[i].Name
			}
			cgu := rolloutOf(1, []string{"c1", "c2", "c3", "c4"}, managing("p1"))
			plan := rollout.NewPlan(cgu, inventory, noon)
			require.Equal(t, tt.want == "", plan.Valid())
			require.Equal(t, cmp.Or(tt.want, "Completed validation"), plan.Conditions[1].Message)
		})
	}
}

// Its administrator may have bound another set there only. A policy that reads a status may lose its compliance.
func TestANamespaceNeedsABindingOnlyForTheClustersOfItsPolicies(t *testing.T) {
	in := func(name, set string) rollout.Cluster {
		return rollout.Cluster{Name: name, Labels: map[string]string{"name": name, policies.LabelClusterSet: set}}
	}
	first, second := policy("first", compliance{"c1": false, "c2": true}), policy("second", compliance{"c2": false})
	first.Namespace, second.Namespace = "a", "b"
	inventory := rollout.Inventory{
		Clusters:  []rollout.Cluster{in("c1", "prod"), in("c2", "edge")},
		Policies:  []rollout.Policy{first, second},
		Hub:       today,
		BoundSets: map[string][]policies.ClusterSet{"a": {{Name: "prod"}}, "b": {{Name: "edge"}}},
	}
	cgu := rolloutOf(1, []string{"c1", "c2"}, managing("first", "second"))
	require.Empty(t, rollout.NewPlan(cgu, inventory, noon).Problems())
	inventory.Policies[0].ReadsStatus = true
	require.Equal(t, []string{"Placements in namespace a cannot pick ManagedClusters yet: create the ManagedClusterSetBindings there for the sets edge (for: c2)"},
		rollout.NewPlan(cgu, inventory, noon).Problems())
}

func TestAnInvalidPlanHasEmptyListsNotNull(t *testing.T) {
	text, err := json.Marshal(rollout.NewPlan(rolloutOf(1, []string{"c9"}), rollout.Inventory{}, noon))
	require.NoError(t, err)
	require.NotContains(t, string(text), "null")
}

func TestDependenciesOnLaterPoliciesAreRefused(t *testing.T) {
	dependsOn := func(names ...string) func(*rollout.Policy) {
		return func(p *rollout.Policy) {
			for _, name := range names {
				p.DependsOn = append(p.DependsOn, types.NamespacedName{Namespace: "default", Name: name})
			}
		}
	}
	work := compliance{"c1": false}
	tests := []struct {
		name     string
		policies []rollout.Policy
		message  string
	}{
		{"on an earlier policy", []rollout.Policy{policy("p1", work), policy("p2", work, dependsOn("p1"))}, ""},
		{"on a policy outside of the rollout", []rollout.Policy{policy("p1", work, dependsOn("p9")), policy("p2", work)}, ""},
		{"on a policy that needs no work", []rollout.Policy{policy("p1", work, dependsOn("p2")), policy("p2", compliance{"c1": true})}, ""},
		{"on a later policy", []rollout.Policy{policy("p1", work, dependsOn("p2")), policy("p2", work)}, "Managed Policy p1 depends on p2, which is to be remediated later"},
		{
			"on a later policy and on itself",
			[]rollout.Policy{policy("p1", work, dependsOn("p2", "p1")), policy("p2", work, dependsOn("p1"))},
			"Managed Policy p1 depends on p2, which is to be remediated later; Managed Policy p1 depends on itself",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan := rollout.NewPlan(rolloutOf(1, []string{"c1"}, managing("p1", "p2")), rollout.Inventory{Clusters: fleet(), Policies: test.policies}, noon)
			require.Equal(t, test.message == "", plan.Valid(), plan.Problems())
			if test.message != "" {
				require.Equal(t, "UnresolvableDenpendency", plan.Conditions[1].Reason)
				require.Equal(t, test.message, plan.Conditions[1].Message)
			}
		})
	}
}

func TestPoliciesThatCannotBeCopiedAreRefusedUnlessTheyAreOverridden(t *testing.T) {
	readsNamespace := func(p *rollout.Policy) { p.HubReads.NotCopied = "read a Secret" }
	inventory := rollout.Inventory{
		Clusters: []rollout.Cluster{{Name: "c1", Labels: map[string]string{"name": "c1"}}},
		Policies: []rollout.Policy{policy("p1", compliance{"c1": false}, readsNamespace)},
		Hub:      today,
	}
	cgu := rolloutOf(1, []string{"c1"}, managing("p1"))
	cgu.Spec.PolicyEnforcement = ranv1.EnforceCopy
	plan := rollout.NewPlan(cgu, inventory, noon)
	require.Equal(t, []string{"Invalid managed policies: [p1]; policy default/p1: a copy in namespace prod could not do the same, because its hub templates read a Secret: " +
		"start the rollout in default, or with policyEnforcement Override"}, plan.Problems())

	inventory.Policies = []rollout.Policy{policy("p1", compliance{"c1": false}, func(p *rollout.Policy) {
		p.MissingSources = []string{"ConfigMap default/sizes, which does not exist"}
	})}
	plan = rollout.NewPlan(cgu, inventory, noon)
	require.Equal(t, []string{"Invalid managed policies: [p1]; policy default/p1: its hub templates read ConfigMap default/sizes, which does not exist"}, plan.Problems())

	cgu.Spec.PolicyEnforcement = ranv1.EnforceOverride
	plan = rollout.NewPlan(cgu, inventory, noon)
	require.True(t, plan.Valid(), plan.Problems())
	require.Equal(t, map[string]string{"p1": "default"}, plan.PolicyNamespaces)

	cgu.Spec.PolicyEnforcement, cgu.Namespace = ranv1.EnforceCopy, "default"
	require.True(t, rollout.NewPlan(cgu, inventory, noon).Valid(), "a copy beside the policy reads the same")
}

func TestAPlanInACycleOfRolloutsIsInvalid(t *testing.T) {
	cgu := rolloutOf(1, []string{"c1"})
	cgu.Namespace, cgu.Name = "ops", "a"
	cgu.Spec.BlockingCRs = blockedBy("a", "", "b").Spec.BlockingCRs
	inventory := rollout.Inventory{Clusters: fleet(), Rollouts: known(blockedBy("b", "", "a"))}
	plan := rollout.NewPlan(cgu, inventory, noon)
	require.Equal(t, []string{"spec.blockingCRs: these rollouts wait for each other: ops/a -> ops/b -> ops/a; take one out"}, plan.Problems())
	require.Equal(t, ranv1.ReasonUnresolvableDependency, plan.Conditions[1].Reason)
	require.Empty(t, plan.RemediationPlan)

	inventory.Rollouts = known(blockedBy("b", "True", "a"))
	require.True(t, rollout.NewPlan(cgu, inventory, noon).Valid(), "an ended rollout waits for none")
}
