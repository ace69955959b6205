package onboarding

import (
	"cmp"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	onboardingactivities "drydock.dev/drydock/activities/onboarding"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// State is where a cluster stands that is not onboarded yet.
type State string

// The states, in the order in which they are shown.
const (
	// Failed: its rollout did not succeed, or there could be none.
	Failed State = "failed"
	// Running: its rollout is at work.
	Running State = "running"
	// Waiting: others come first.
	Waiting State = "waiting"
)

// Cluster is a cluster that is not onboarded yet.
type Cluster struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Policies of its rollout until it is known which run that is, in order; none: it is only labelled.
	Policies []string `json:"policies,omitempty"`
	// RunID of its rollout.
	RunID string `json:"runID,omitempty"`
	// Reason and Message say why it failed.
	Reason  string      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	Since   metav1.Time `json:"since"`
}

// Status is which clusters are being onboarded, and which could not be.
type Status struct {
	StartedAt metav1.Time `json:"startedAt"`
	// Onboarded is how many clusters were, since then.
	Onboarded int `json:"onboarded"`
	// Clusters that are not: failed ones first, then those at work, then those that wait.
	Clusters []Cluster `json:"clusters"`
	// Wait is why new clusters are not seen.
	Wait *drydockv1.Wait `json:"wait,omitempty"`
	// Message says how it ended.
	Message string `json:"message,omitempty"`
}

// Count returns how many clusters are in a state.
func (s *Status) Count(state State) int {
	count := 0
	for _, cluster := range s.Clusters {
		if cluster.State == state {
			count++
		}
	}
	return count
}

// onboardingRecord keeps the status and shows every change of it.
type onboardingRecord struct {
	ctx    workflow.Context
	status Status
	// followed are the clusters whose rollout this run follows.
	followed map[string]bool
	reason   kit.CurrentReason
}

func newOnboardingRecord(ctx workflow.Context, carried *Status) *onboardingRecord {
	r := &onboardingRecord{ctx: ctx, followed: map[string]bool{}}
	r.status = Status{StartedAt: metav1.NewTime(workflow.Now(ctx)), Clusters: []Cluster{}}
	if carried != nil {
		r.status = *carried
	}
	r.reason = kit.CurrentReason{Attributes: &kit.SearchAttributes{Ctx: ctx}, Wait: &r.status.Wait, Show: r.show}
	return r
}

func (r *onboardingRecord) cluster(name string) *Cluster {
	i := slices.IndexFunc(r.status.Clusters, func(c Cluster) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &r.status.Clusters[i]
}

// known are the clusters that are not new: those being onboarded, or waiting for it, and those that failed.
func (r *onboardingRecord) known() (atWork, failed []string) {
	for _, c := range r.status.Clusters {
		if c.State == Failed {
			failed = append(failed, c.Name)
		} else {
			atWork = append(atWork, c.Name)
		}
	}
	return atWork, failed
}

// found takes in a new cluster. One of which it cannot be said what is to be rolled out has failed.
func (r *onboardingRecord) found(ctx workflow.Context, found onboardingactivities.NewCluster) {
	if r.cluster(found.Name) != nil {
		return // its rollout ended while it was looked for
	}
	cluster := Cluster{Name: found.Name, State: Waiting, Policies: found.Policies, Since: metav1.NewTime(workflow.Now(ctx))}
	if found.Problem != "" {
		r.fail(&cluster, temporal.ErrInvalidSpec, found.Problem)
	}
	r.status.Clusters = append(r.status.Clusters, cluster)
	r.show()
}

// settled forgets clusters that had failed.
func (r *onboardingRecord) settled(names []string) {
	r.status.Clusters = slices.DeleteFunc(r.status.Clusters, func(c Cluster) bool {
		return c.State == Failed && slices.Contains(names, c.Name)
	})
	r.show()
}

// next returns the clusters to be taken up, as long as not more than so many are at work: those that an earlier run has taken up, then those that have
// waited longest.
func (r *onboardingRecord) next(atOnce int) []Cluster {
	var taken []Cluster
	running := 0
	for i := range r.status.Clusters {
		c := &r.status.Clusters[i]
		if c.State != Running {
			continue
		}
		running++
		if !r.followed[c.Name] {
			r.followed[c.Name] = true
			taken = append(taken, *c)
		}
	}
	for i := range r.status.Clusters {
		c := &r.status.Clusters[i]
		if c.State != Waiting || running >= atOnce {
			continue
		}
		running++
		c.State, r.followed[c.Name] = Running, true
		taken = append(taken, *c)
	}
	if len(taken) > 0 {
		r.show()
	}
	return taken
}

// started records which run of its rollout a cluster has.
func (r *onboardingRecord) started(ctx workflow.Context, name, runID string) {
	c := r.cluster(name)
	c.RunID, c.Policies, c.Since = runID, nil, metav1.NewTime(workflow.Now(ctx))
	r.show()
}

// foundAtWork records that somebody else has started the rollout of a cluster. Its policies are kept: when that run is over before it is known which it
// is, the next one is of these.
func (r *onboardingRecord) foundAtWork(ctx workflow.Context, name string) {
	r.cluster(name).Since = metav1.NewTime(workflow.Now(ctx))
	r.show()
}

// ended records how the rollout of a cluster ended. One that is onboarded is of no further concern.
func (r *onboardingRecord) ended(ctx workflow.Context, name string, end onboardingactivities.RolloutEnd) {
	delete(r.followed, name)
	if end.Succeeded {
		r.status.Onboarded++
		r.status.Clusters = slices.DeleteFunc(r.status.Clusters, func(c Cluster) bool { return c.Name == name })
	} else {
		c := r.cluster(name)
		r.fail(c, end.Reason, end.Message)
		c.Since, c.RunID = metav1.NewTime(workflow.Now(ctx)), ""
	}
	r.show()
}

const (
	// failuresExplained is how many failed clusters have a message. What is wrong with more than that is mostly the same, and all must fit into what the
	// server takes from one run to the next: 2 MiB.
	failuresExplained = 500
	// failureLimit is how many bytes of a message are kept. The rollout has all of it.
	failureLimit = 300
)

// fail records why a cluster is not onboarded.
func (r *onboardingRecord) fail(c *Cluster, reason, message string) {
	explained := 0
	for _, other := range r.status.Clusters {
		if other.State == Failed && other.Message != "" {
			explained++
		}
	}
	if explained >= failuresExplained {
		message = ""
	}
	c.State, c.Reason, c.Message, c.Policies = Failed, reason, temporal.Cut(message, failureLimit), nil
}

// show makes the change visible, what matters first.
func (r *onboardingRecord) show() {
	order := []State{Failed, Running, Waiting}
	slices.SortStableFunc(r.status.Clusters, func(a, b Cluster) int {
		return cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State))
	})
	workflow.SetCurrentDetails(r.ctx, onboardingDetails(&r.status))
}

func onboardingDetails(s *Status) string {
	var d kit.Details
	d.Head("onboarding", fmt.Sprintf("%d onboarded", s.Onboarded))
	d.Row("at work", fmt.Sprintf("%d, and %d wait", s.Count(Running), s.Count(Waiting)))
	d.Row("failed", fmt.Sprint(s.Count(Failed)))
	d.Wait(s.Wait)
	d.WriteString("\n")
	d.Head("cluster", "state", "since", "reason")
	for _, c := range s.Clusters {
		why := c.Reason
		if c.Message != "" {
			why += ": " + c.Message
		}
		d.Line(c.Name, string(c.State), c.Since.UTC().Format(kit.TimeFormat), why)
	}
	return d.Text()
}
