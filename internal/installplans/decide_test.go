package installplans_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/installplans"
	"drydock.dev/drydock/internal/views"
)

func parse(t require.TestingT, text string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &object.Object))
	return object
}

// ptp is a Subscription that a policy requires, without a version.
var ptp = installplans.Requested{Namespace: "ptp", Name: "ptp-operator", Spec: map[string]string{"channel": "stable", "installPlanApproval": "Manual"}}

func requesting(spec map[string]string) installplans.Requested {
	return installplans.Requested{Namespace: ptp.Namespace, Name: ptp.Name, Spec: spec}
}

// pending is the Subscription while its InstallPlan waits for an approval.
const pending = `
metadata: {namespace: ptp, name: ptp-operator}
spec: {name: ptp-operator, channel: stable, installPlanApproval: Manual, source: redhat, sourceNamespace: marketplace, startingCSV: ptp.v1}
status: {state: UpgradePending, installedCSV: ptp.v1, currentCSV: ptp.v2, installPlanRef: {name: install-abc}}`

const waiting = `
metadata: {namespace: ptp, name: install-abc, uid: "1", resourceVersion: "7"}
spec: {approval: Manual, approved: false, clusterServiceVersionNames: [ptp.v2]}
status: {phase: RequiresApproval, catalogSources: []}`

func observed(t require.TestingT, subscription, plan string) installplans.Observed {
	return installplans.Observed{
		Subscriptions: map[string]*installplans.Subscription{"ptp/ptp-operator": installplans.ReadSubscription(parse(t, subscription))},
		Plans:         map[string]*installplans.Plan{"ptp/install-abc": installplans.ReadPlan(parse(t, plan))},
	}
}

const approving = "approving InstallPlan install-abc of Subscription ptp/ptp-operator"

func TestAnInstallPlanIsApprovedOnlyForTheRequestedVersion(t *testing.T) {
	const spec = "metadata: {namespace: ptp, name: ptp-operator}\nspec: {name: ptp-operator, channel: stable, installPlanApproval: Manual, startingCSV: ptp.v2}\n"
	tests := []struct {
		name               string
		requested          installplans.Requested
		subscription, plan string
		approved           bool
		says               string
	}{
		{"the current version, if the policy names none", ptp, pending, waiting, true, approving},
		{"the named version", requesting(map[string]string{"startingCSV": "ptp.v2"}), spec + "status: {state: UpgradePending, currentCSV: ptp.v2, installPlanRef: {name: install-abc}}", waiting, true, approving},
		{
			"another than the named version", requesting(map[string]string{"startingCSV": "ptp.v2"}), spec + "status: {state: UpgradePending, currentCSV: ptp.v3, installPlanRef: {name: install-abc}}",
			"metadata: {name: install-abc}\nspec: {approval: Manual, approved: false, clusterServiceVersionNames: [ptp.v3]}", false,
			"InstallPlan install-abc of Subscription ptp/ptp-operator installs ptp.v3, not the requested ptp.v2",
		},
		{
			"a version that the cluster has filled in", requesting(map[string]string{"startingCSV": `{{ fromConfigMap "ptp" "versions" "csv" }}`}),
			spec + "status: {state: UpgradePending, currentCSV: ptp.v3, installPlanRef: {name: install-abc}}", waiting, true, approving,
		},
		{
			"the policy has another channel, which the cluster does not have yet", requesting(map[string]string{"channel": "fast"}), pending, waiting, false,
			`Subscription ptp/ptp-operator on the cluster has channel "stable", not "fast" as in the policy`,
		},
		{"the first installation", requesting(nil), spec + "status: {currentCSV: ptp.v2, installPlanRef: {name: install-abc}}", waiting, true, approving},
		{"an older reference to the InstallPlan", requesting(nil), spec + "status: {state: UpgradePending, currentCSV: ptp.v2, installplan: {name: install-abc}}", waiting, true, approving},
		{"a Subscription that installs by itself", requesting(nil), "metadata: {}\nspec: {installPlanApproval: Automatic}\nstatus: {state: UpgradePending, installPlanRef: {name: install-abc}}", waiting, false, ""},
		{"an InstallPlan that needs no approval", ptp, pending, "metadata: {name: install-abc}\nspec: {approval: Automatic, approved: false, clusterServiceVersionNames: [ptp.v2]}", false, ""},
		{
			"an approved InstallPlan", ptp, pending, "metadata: {name: install-abc}\nspec: {approval: Manual, approved: true, clusterServiceVersionNames: [ptp.v2]}\nstatus: {phase: Installing}", false,
			"InstallPlan install-abc of Subscription ptp/ptp-operator is approved, installing",
		},
		{
			"a failed InstallPlan", ptp, pending,
			"metadata: {name: install-abc}\nspec: {approval: Manual, approved: true, clusterServiceVersionNames: [ptp.v2]}\nstatus: {phase: Failed, conditions: [{type: Installed, status: 'False', message: no CRD}]}",
			false, "InstallPlan install-abc of Subscription ptp/ptp-operator has failed: no CRD",
		},
		{"the latest version is installed", ptp, "metadata: {}\nspec: {channel: stable, installPlanApproval: Manual}\nstatus: {state: AtLatestKnown, installedCSV: ptp.v2, installPlanRef: {name: install-abc}}", waiting, false, ""},
		{
			"the catalog lacks the named version", requesting(map[string]string{"startingCSV": "ptp.v2"}), spec + "status: {state: AtLatestKnown, installedCSV: ptp.v1}", waiting, false,
			"Subscription ptp/ptp-operator has installed ptp.v1, and its catalog has no update to ptp.v2",
		},
		{"no InstallPlan yet", ptp, "metadata: {}\nspec: {channel: stable, installPlanApproval: Manual}", waiting, false, "Subscription ptp/ptp-operator has no InstallPlan yet"},
		{
			"the InstallPlan is not read yet", ptp, "metadata: {}\nspec: {channel: stable, installPlanApproval: Manual}\nstatus: {state: UpgradePending, currentCSV: ptp.v2, installPlanRef: {name: install-xyz}}",
			waiting, false, "reading InstallPlan ptp/install-xyz",
		},
		{
			"another version of the namespace", ptp, pending, "metadata: {name: install-abc}\nspec: {approval: Manual, approved: false, clusterServiceVersionNames: [ptp.v2, sriov.v5]}", false,
			"InstallPlan install-abc of Subscription ptp/ptp-operator also installs sriov.v5, which neither this policy nor an earlier one of the cluster requests: approve it by hand, or add the Subscription to the policy",
		},
		{
			"a dependency that is new in the namespace", ptp, pending, `
metadata: {name: install-abc}
spec: {approval: Manual, approved: false, clusterServiceVersionNames: [ptp.v2, amq.v1]}
status: {plan: [{resolving: amq.v1, resource: {group: operators.coreos.com, kind: Subscription, name: amq-stable}}]}`, true, approving,
		},
		{"a name that the cluster fills in", installplans.Requested{Namespace: "ptp", Name: "{{ name }}"}, pending, waiting, false, "the name of Subscription ptp/{{ name }} is a template: approve its InstallPlan by hand"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			decision := installplans.Decide(tt.requested, []installplans.Requested{tt.requested}, observed(t, tt.subscription, tt.plan))
			require.Equal(t, tt.says, decision.Message)
			require.Equal(t, tt.approved, decision.Plan != nil)
		})
	}
}

func TestAnInstallPlanOfSeveralRequestedSubscriptionsIsApprovedOnce(t *testing.T) {
	sriov := installplans.Requested{Namespace: "ptp", Name: "sriov", Spec: map[string]string{"startingCSV": "sriov.v5"}}
	seen := observed(t, pending, "metadata: {name: install-abc, uid: '1'}\nspec: {approval: Manual, approved: false, clusterServiceVersionNames: [ptp.v2, sriov.v5]}")
	both := []installplans.Requested{ptp, sriov}
	require.Empty(t, installplans.DecideCluster("c1", both[:1], both, seen).Approvals, "the other Subscription is not read yet")

	seen.Subscriptions["ptp/sriov"] = installplans.ReadSubscription(parse(t, `
metadata: {namespace: ptp, name: sriov}
spec: {installPlanApproval: Manual, startingCSV: sriov.v5}
status: {state: UpgradePending, currentCSV: sriov.v5, installPlanRef: {name: install-abc}}`))
	approval := []installplans.Approval{{Cluster: "c1", Subscription: "ptp/ptp-operator", Namespace: "ptp", Plan: "install-abc", UID: "1"}}
	require.Equal(t, approval, installplans.DecideCluster("c1", both, both, seen).Approvals)
	require.Equal(t, approval, installplans.DecideCluster("c1", both[:1], both, seen).Approvals, "also if an earlier policy requires the other one")
	require.Empty(t, installplans.DecideCluster("c1", both[:1], both[:1], seen).Approvals, "not if only a later policy requires it")
}

func TestAnInstallPlanThatIsGoneIsNamed(t *testing.T) {
	seen := observed(t, pending, waiting)
	seen.Plans["ptp/install-abc"] = nil
	require.Equal(t, "InstallPlan install-abc of Subscription ptp/ptp-operator does not exist", installplans.Decide(ptp, nil, seen).Message)
}

func TestAnApprovalThroughTheAgentIsFollowed(t *testing.T) {
	tests := []struct {
		name             string
		outcome          views.Outcome
		approved, failed bool
		reread           bool
		says             string
	}{
		{"not done yet", views.Outcome{Version: "7"}, false, false, false, approving + ": waiting for the agent of the cluster"},
		{"done, and not read since", views.Outcome{Version: "7", Done: true}, false, false, true, approving + ": done, reading it again"},
		{"failed", views.Outcome{Version: "7", Failure: "forbidden"}, true, true, false, approving + " has failed and is retried: forbidden"},
		{"failed for an older version", views.Outcome{Version: "6", Failure: "conflict"}, true, false, false, approving},
		{"undone by another program", views.Outcome{Version: "6", Done: true}, true, false, false, approving},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			seen := observed(t, pending, waiting)
			seen.Approvals = map[string]views.Outcome{"ptp/install-abc": tt.outcome}
			decided := installplans.Decide(ptp, nil, seen)
			require.Equal(t, tt.says, decided.Message)
			require.Equal(t, []bool{tt.approved, tt.failed, tt.reread}, []bool{decided.Plan != nil, decided.Failed, decided.Approved != nil})
		})
	}
}

func TestOnlyWhatADecisionNeedsIsRead(t *testing.T) {
	other := installplans.Requested{Namespace: "ptp", Name: "sriov"}
	rollout := []installplans.Requested{ptp, other, {Namespace: "elsewhere", Name: "logging"}, {Namespace: "ptp", Name: "{{ name }}"}}
	subscriptions := []views.Object{{Kind: installplans.Subscriptions, Namespace: "ptp", Name: "ptp-operator"}, {Kind: installplans.Subscriptions, Namespace: "ptp", Name: "sriov"}}
	require.Equal(t, subscriptions, installplans.Needed(rollout[:1], rollout, installplans.Observed{}))
	require.Equal(t, append(subscriptions, views.Object{Kind: installplans.InstallPlans, Namespace: "ptp", Name: "install-abc"}),
		installplans.Needed(rollout[:1], rollout, observed(t, pending, waiting)))
}

func TestTheMessageOfAClusterNamesTwoSubscriptions(t *testing.T) {
	var requested []installplans.Requested
	for _, name := range []string{"a", "b", "c"} {
		requested = append(requested, installplans.Requested{Namespace: "ns", Name: name})
	}
	decided := installplans.DecideCluster("c1", requested, requested, installplans.Observed{})
	require.Equal(t, "reading Subscription ns/a; reading Subscription ns/b; and 1 more Subscriptions", decided.Message)
	require.NotEmpty(t, decided.Digest)
	require.Empty(t, installplans.DecideCluster("c1", nil, requested, installplans.Observed{}).Digest)
}

// Whatever a cluster shows, an approved InstallPlan is manual, not approved yet, and installs the requested version and no foreign one.
func TestNoOtherInstallPlanIsApproved(t *testing.T) {
	csv := rapid.SampledFrom([]string{"", "ptp.v1", "ptp.v2", "sriov.v5"})
	rapid.Check(t, func(t *rapid.T) {
		approval := rapid.SampledFrom([]string{"", "Manual", "Automatic"})
		requested := requesting(map[string]string{"startingCSV": csv.Draw(t, "requested"), "installPlanApproval": approval.Draw(t, "requested approval")})
		subscription := &installplans.Subscription{
			Spec:  map[string]string{"startingCSV": csv.Draw(t, "startingCSV"), "installPlanApproval": approval.Draw(t, "approval")},
			State: rapid.SampledFrom([]string{"", "UpgradePending", "AtLatestKnown"}).Draw(t, "state"), CurrentCSV: csv.Draw(t, "current"), Plan: "install-abc",
		}
		plan := &installplans.Plan{
			Name: "install-abc", Manual: rapid.Bool().Draw(t, "manual"), Approved: rapid.Bool().Draw(t, "approved"),
			CSVs: rapid.SliceOfDistinct(csv, rapid.ID[string]).Draw(t, "csvs"), Dependencies: rapid.SliceOf(csv).Draw(t, "dependencies"),
		}
		seen := installplans.Observed{
			Subscriptions: map[string]*installplans.Subscription{requested.String(): subscription}, Plans: map[string]*installplans.Plan{"ptp/install-abc": plan},
		}
		decision := installplans.Decide(requested, nil, seen)
		if decision.Plan == nil {
			return
		}
		wanted := requested.Spec["startingCSV"]
		if wanted == "" {
			wanted = subscription.CurrentCSV
		}
		require.True(t, plan.Manual && !plan.Approved)
		require.Equal(t, "Manual", subscription.Spec["installPlanApproval"])
		require.NotEmpty(t, wanted)
		require.Contains(t, plan.CSVs, wanted)
		for _, installed := range plan.CSVs {
			require.True(t, installed == wanted || slices.Contains(plan.Dependencies, installed), installed)
		}
	})
}
