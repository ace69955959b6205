package statuspage

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/rollout"
)

// Models of the templates, with all texts. Templates only place them.

// pill is a state in a word, with its colour.
type pill struct{ Tone, Words string }

func statusPill(status sreportalv1.ServiceStatus) pill {
	return pill{tone(status), statusWords(status)}
}

func statePill(state string) pill { return pill{toneOfState(state), rollout.Words(state)} }

// summaryModel is the overall status.
type summaryModel struct {
	Pill     pill
	Headline string
	Stale    bool
	Lines    []string
}

func newSummary(v *View) summaryModel {
	summary := summaryModel{Pill: statusPill(v.status()), Headline: headline(v), Stale: v.Trouble != nil && !v.unread()}
	active, waiting := v.maintained()
	counts := []struct {
		n     int
		words string
	}{
		{len(v.maintenances(sreportalv1.PhaseInProgress)), "maintenance in progress"},
		{len(slices.DeleteFunc(slices.Clone(v.Upgrades), func(u Upgrade) bool { return !u.Running() })), "rollout running"},
		{len(active), "node under maintenance"},
		{len(waiting), "node waiting for maintenance"},
	}
	for _, count := range counts {
		if first, rest, _ := strings.Cut(count.words, " "); count.n > 0 {
			summary.Lines = append(summary.Lines, plural(count.n, first)+" "+rest)
		}
	}
	return summary
}

// groupModel is a group of components.
type groupModel struct {
	Name       string
	Pill       pill
	Components []componentModel
}

type componentModel struct {
	portal.ComponentView
	Pill     pill
	Runs     []run
	DaysText string
	// Uptime is e.g. "99.95% uptime"; empty: nothing is known.
	Uptime string
	// Reasons are the titles of the maintenances that override the declared status, and of the incidents that make it worse.
	Reasons []string
}

// groupsOf are the components in their groups, in the portal's order.
func groupsOf(v *View) []groupModel {
	titles := map[string]string{}
	for _, m := range v.maintenances(sreportalv1.PhaseInProgress) {
		titles[m.Name] = m.Title
	}
	for _, i := range v.incidents() {
		titles["incident "+i.Name] = i.Title
	}
	var groups []groupModel
	for _, c := range v.components() {
		model := componentModel{ComponentView: c, Pill: statusPill(c.Status), Runs: runsOf(c.Days), DaysText: daysText(c.Days), Uptime: uptimeText(c.Days)}
		for _, name := range c.Because {
			model.Reasons = append(model.Reasons, cmp.Or(titles[name], name))
		}
		if c.BecauseMore > 0 {
			model.Reasons = append(model.Reasons, fmt.Sprintf("%d more", c.BecauseMore))
		}
		if n := len(groups); n == 0 || groups[n-1].Name != c.Group {
			groups = append(groups, groupModel{Name: c.Group})
		}
		last := &groups[len(groups)-1]
		last.Components = append(last.Components, model)
	}
	for i, group := range groups {
		var all []sreportalv1.ServiceStatus
		for _, c := range group.Components {
			all = append(all, c.Status)
		}
		groups[i].Pill = statusPill(portal.Worst(all...))
	}
	return groups
}

// maintenanceModel is a maintenance with the names of its components.
type maintenanceModel struct {
	portal.MaintenanceView
	Pill  pill
	Names []string
}

// shownCompleted is the number of completed maintenances on the page.
const shownCompleted = 5

func maintenancesOf(v *View, phase sreportalv1.MaintenancePhase) []maintenanceModel {
	names := map[string]string{}
	for _, c := range v.components() {
		names[c.Name] = c.DisplayName
	}
	var models []maintenanceModel
	for _, m := range v.maintenances(phase) {
		if phase == sreportalv1.PhaseCompleted && len(models) == shownCompleted {
			break
		}
		model := maintenanceModel{MaintenanceView: m, Pill: maintenancePill(m)}
		for _, name := range m.Components {
			model.Names = append(model.Names, cmp.Or(names[name], name))
		}
		models = append(models, model)
	}
	return models
}

// incidentModel is an incident with the names of its components.
type incidentModel struct {
	portal.IncidentView
	Pill  pill
	Names []string
}

// incidentsOf are the incidents that are not resolved, or the last ones that are.
func incidentsOf(v *View, resolved bool) []incidentModel {
	names := map[string]string{}
	for _, c := range v.components() {
		names[c.Name] = c.DisplayName
	}
	var models []incidentModel
	for _, i := range v.incidents() {
		if (i.ResolvedAt != nil) != resolved || resolved && len(models) == shownCompleted {
			continue
		}
		model := incidentModel{IncidentView: i, Pill: pill{tone(portal.StatusOf(i.Severity)), incidentWords(i)}}
		if resolved {
			model.Pill.Tone = "good"
		}
		for _, name := range i.Components {
			model.Names = append(model.Names, cmp.Or(names[name], name))
		}
		models = append(models, model)
	}
	return models
}

// incidentWords are the severity and the phase of an incident, such as "Major, monitoring".
func incidentWords(i portal.IncidentView) string {
	if i.ResolvedAt != nil {
		return "Resolved"
	}
	severity := string(i.Severity)
	return strings.ToUpper(severity[:1]) + severity[1:] + ", " + string(i.Phase)
}

func maintenancePill(m portal.MaintenanceView) pill {
	switch {
	case m.Cancelled:
		return pill{"none", "Cancelled"}
	case m.Phase == sreportalv1.PhaseInProgress:
		return pill{tone(m.AffectedStatus), "In progress"}
	case m.Phase == sreportalv1.PhaseUpcoming:
		return pill{"none", "Upcoming"}
	}
	return pill{"good", "Completed"}
}

// upgradeModel is a rollout.
type upgradeModel struct {
	Of      Upgrade
	Pill    pill
	Message string
	// Unread is why progress is unknown; empty if it is known.
	Unread string
	// Batch is e.g. "Batch 2 of 5".
	Batch, Counts string
	Wait          *waitModel
	// Held is a hold that Wait does not describe.
	Held      string
	StartedAt time.Time
	// Estimate of the end; nil: EndUnknown says why, and Bound what happens at BoundAt at the latest.
	Estimate          *time.Time
	EndUnknown, Bound string
	BoundAt           *time.Time
	Path, URL         string
}

// newUpgrade describes a rollout as it is now.
func newUpgrade(u Upgrade, ui webUI, now time.Time) upgradeModel {
	state, message := verdict(u)
	model := upgradeModel{
		Of: u, Pill: statePill(state), Message: message, Counts: rollout.CountsText(u.Status.Counts, u.Status.Status.CompletedAt != nil), StartedAt: u.Row.StartedAt,
		Unread: unreadWords(u.Known, u.Running()),
		Path:   "/upgrades/" + url.PathEscape(u.Namespace) + "/" + url.PathEscape(u.Name), URL: ui.link(u.WorkflowID, u.RunID),
	}
	run := u.Status.Status
	if run.StartedAt != nil {
		model.StartedAt = run.StartedAt.Time
	}
	if !u.Running() {
		return model
	}
	if u.Known {
		state = rollout.State(&u.Status, state, now)
		model.Pill, model.Message = rolloutPill(state, model.Pill), rollout.Message(&u.Status, state, message)
	}
	if run.CurrentBatch > 0 {
		model.Batch = fmt.Sprintf("Batch %d of %d", run.CurrentBatch, max(len(u.Status.RemediationPlan), int(run.Batches)))
	}
	expectation := rollout.ExpectationOf(&u.Status, now)
	model.EndUnknown, model.Bound = expectation.Unknown, expectation.Bound
	if expectation.Estimate != nil {
		model.Estimate = &expectation.Estimate.End.Time
	}
	if expectation.BoundAt != nil {
		model.BoundAt = &expectation.BoundAt.Time
	}
	model.Wait, model.Held = newWait(u.Status.Wait), heldBeside(u.Status.Held, u.Status.Wait)
	return model
}

// rolloutPill is the state of a running rollout, amber while it waits for a person or a window.
func rolloutPill(state string, otherwise pill) pill {
	switch state {
	case rollout.StateBlocked, rollout.StateWaitingForWindow, rollout.StateWaitingForApproval, rollout.StateHeld, rollout.StatePaused:
		return pill{"warn", state}
	case rollout.StateRunning, rollout.StateSoaking, rollout.StateCancelling:
		return pill{"work", state}
	}
	return otherwise
}

// batchModel is a batch of a rollout, or its skipped clusters.
type batchModel struct {
	Name     string
	Current  bool
	Counts   string
	Clusters []clusterModel
}

type clusterModel struct {
	ranv1.ClusterStatus
	Pill     pill
	NodeText string
	Now      string
	// NodePaths link to the nodes under maintenance.
	NodePaths []nodeLink
}

type nodeLink struct{ Node, Path string }

// batchesOf are the clusters of a rollout, batch by batch.
func batchesOf(u Upgrade, v *View) []batchModel {
	clusters := slices.Clone(u.Status.Clusters)
	slices.SortStableFunc(clusters, func(a, b ranv1.ClusterStatus) int { return cmp.Compare(batchRank(a), batchRank(b)) })
	var batches []batchModel
	requestor := rollout.RequestorID(types.NamespacedName{Namespace: u.Namespace, Name: u.Name})
	number := int32(-1)
	for _, c := range clusters {
		if c.Batch != number {
			number = c.Batch
			name := fmt.Sprintf("Batch %d", number)
			if number == 0 {
				name = "Not in the plan"
			}
			batches = append(batches, batchModel{Name: name, Current: u.Running() && number > 0 && number == u.Status.Status.CurrentBatch})
		}
		last := &batches[len(batches)-1]
		last.Clusters = append(last.Clusters, newCluster(c, v, requestor, u.Status.Status.CompletedAt != nil))
	}
	for i, batch := range batches {
		complete := 0
		for _, c := range batch.Clusters {
			if c.State == ranv1.ClusterComplete {
				complete++
			}
		}
		batches[i].Counts = fmt.Sprintf("%d of %d complete", complete, len(batch.Clusters))
	}
	return batches
}

// batchRank puts clusters that have no batch last.
func batchRank(c ranv1.ClusterStatus) int32 {
	if c.Batch == 0 {
		return 1 << 30
	}
	return c.Batch
}

// newCluster is a cluster of a rollout; requestor is the rollout's requestor of nodes. over: the rollout has ended.
func newCluster(c ranv1.ClusterStatus, v *View, requestor string, over bool) clusterModel {
	model := clusterModel{ClusterStatus: c, Pill: pill{toneOfState(string(c.State)), rollout.Words(rollout.ClusterWords(c.State, over))}}
	if c.Nodes.Total > 0 {
		model.NodeText = fmt.Sprintf("%d of %s done", c.Nodes.Done, plural(int(c.Nodes.Total), "node"))
	}
	parts := []string{strings.TrimSuffix(rollout.Words(c.Reason)+": "+c.Message, ": ")}
	if c.Step != "" && !c.State.Over() {
		parts = []string{c.Step, parts[0]}
	}
	model.Now = strings.TrimPrefix(strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; "), ": ")
	if !c.State.Over() {
		for _, n := range v.nodesOf(c.Name, "") {
			if n.Running() && n.Node != "" && n.Requestor == requestor {
				model.NodePaths = append(model.NodePaths, nodeLink{n.Node, nodePath(n)})
			}
		}
	}
	return model
}

// nodeModel is one maintenance of a node.
type nodeModel struct {
	Of     Node
	Pill   pill
	Unread string
	Wait   *waitModel
	// Held is a hold that Wait does not describe.
	Held      string
	Steps     []stepModel
	Path, URL string
}

// stepModel is a state that the maintenance was in.
type stepModel struct {
	State   string
	At      time.Time
	Took    string
	Current bool
	Tone    string
}

func nodePath(n Node) string {
	return "/nodes/" + url.PathEscape(n.Cluster) + "/" + url.PathEscape(n.Row.Node)
}

// newNode describes a maintenance as it is now.
func newNode(n Node, ui webUI, now time.Time) nodeModel {
	state := stateOf(n)
	model := nodeModel{Of: n, Pill: statePill(state), Unread: unreadWords(n.Known, n.Running()), Path: nodePath(n), URL: ui.link(n.WorkflowID, n.RunID)}
	if n.Running() {
		model.Wait, model.Held = newWait(n.Status.Wait), heldBeside(n.Status.Held, n.Status.Wait)
		if rollout.Blocks(n.Status.Wait, now) {
			model.Pill = pill{"warn", model.Pill.Words + ", blocked"}
		}
	}
	for i, entered := range n.Status.States {
		step := stepModel{State: rollout.Words(string(entered.State)), At: entered.At.Time, Tone: toneOfState(string(entered.State))}
		switch {
		case i+1 < len(n.Status.States):
			step.Took = n.Status.States[i+1].At.Sub(entered.At.Time).Round(time.Second).String()
			if step.Tone != "bad" {
				step.Tone = "good"
			}
		case n.Running():
			step.Current = true
		}
		model.Steps = append(model.Steps, step)
	}
	return model
}
