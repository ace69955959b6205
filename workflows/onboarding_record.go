package workflows

import (
	"cmp"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// OnboardingState is where a cluster stands that is not onboarded yet.
type OnboardingState string

// The states, in the order in which they are shown.
const (
	// OnboardingFailed: its rollout did not succeed, or there could be none.
	OnboardingFailed OnboardingState = "failed"
	// OnboardingRunning: its rollout is at work.
	OnboardingRunning OnboardingState = "running"
	// OnboardingWaiting: others come first.
	OnboardingWaiting OnboardingState = "waiting"
)

// OnboardingCluster is a cluster that is not onboarded yet.
type OnboardingCluster struct {
	Name  string          `json:"name"`
	State OnboardingState `json:"state"`
	// Policies of its rollout until it is known which run that is, in order; none: it is only labelled.
	Policies []string `json:"policies,omitempty"`
	// RunID of its rollout.
	RunID string `json:"runID,omitempty"`
	// Reason and Message say why it failed.
	Reason  string      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	Since   metav1.Time `json:"since"`
}

// OnboardingStatus is which clusters are being onboarded, and which could not be.
type OnboardingStatus struct {
	StartedAt metav1.Time `json:"startedAt"`
	// Onboarded is how many clusters were, since then.
	Onboarded int `json:"onboarded"`
	// Clusters that are not: failed ones first, then those at work, then those that wait.
	Clusters []OnboardingCluster `json:"clusters"`
	// Wait is why new clusters are not seen.
	Wait *drydockv1.Wait `json:"wait,omitempty"`
	// Message says how it ended.
	Message string `json:"message,omitempty"`
}

// Count returns how many clusters are in a state.
func (s *OnboardingStatus) Count(state OnboardingState) int {
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
	status OnboardingStatus
	// followed are the clusters whose rollout this run follows.
	followed map[string]bool
	reason   reasonKeeper
}

func newOnboardingRecord(ctx workflow.Context, carried *OnboardingStatus) *onboardingRecord {
	r := &onboardingRecord{ctx: ctx, followed: map[string]bool{}}
	r.status = OnboardingStatus{StartedAt: metav1.NewTime(workflow.Now(ctx)), Clusters: []OnboardingCluster{}}
	if carried != nil {
		r.status = *carried
	}
	r.reason = reasonKeeper{attributes: &attributeKeeper{ctx: ctx}, wait: &r.status.Wait, show: r.show}
	return r
}

func (r *onboardingRecord) cluster(name string) *OnboardingCluster {
	i := slices.IndexFunc(r.status.Clusters, func(c OnboardingCluster) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &r.status.Clusters[i]
}

// known are the clusters that are not new: those being onboarded, or waiting for it, and those that failed.
func (r *onboardingRecord) known() (atWork, failed []string) {
	for _, c := range r.status.Clusters {
		if c.State == OnboardingFailed {
			failed = append(failed, c.Name)
		} else {
			atWork = append(atWork, c.Name)
		}
	}
	return atWork, failed
}

// found takes in a new cluster. One of which it cannot be said what is to be rolled out has failed.
func (r *onboardingRecord) found(ctx workflow.Context, found activities.NewCluster) {
	if r.cluster(found.Name) != nil {
		return // its rollout ended while it was looked for
	}
	cluster := OnboardingCluster{Name: found.Name, State: OnboardingWaiting, Policies: found.Policies, Since: metav1.NewTime(workflow.Now(ctx))}
	if found.Problem != "" {
		r.fail(&cluster, temporal.ErrInvalidSpec, found.Problem)
	}
	r.status.Clusters = append(r.status.Clusters, cluster)
	r.show()
}

// settled forgets clusters that had failed.
func (r *onboardingRecord) settled(names []string) {
	r.status.Clusters = slices.DeleteFunc(r.status.Clusters, func(c OnboardingCluster) bool {
		return c.State == OnboardingFailed && slices.Contains(names, c.Name)
	})
	r.show()
}

// next returns the clusters to be taken up, as long as not more than so many are at work: those that an earlier run has taken up, then those that have
// waited longest.
func (r *onboardingRecord) next(atOnce int) []OnboardingCluster {
	var taken []OnboardingCluster
	running := 0
	for i := range r.status.Clusters {
		c := &r.status.Clusters[i]
		if c.State != OnboardingRunning {
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
		if c.State != OnboardingWaiting || running >= atOnce {
			continue
		}
		running++
		c.State, r.followed[c.Name] = OnboardingRunning, true
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
func (r *onboardingRecord) ended(ctx workflow.Context, name string, end activities.RolloutEnd) {
	delete(r.followed, name)
	if end.Succeeded {
		r.status.Onboarded++
		r.status.Clusters = slices.DeleteFunc(r.status.Clusters, func(c OnboardingCluster) bool { return c.Name == name })
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
func (r *onboardingRecord) fail(c *OnboardingCluster, reason, message string) {
	explained := 0
	for _, other := range r.status.Clusters {
		if other.State == OnboardingFailed && other.Message != "" {
			explained++
		}
	}
	if explained >= failuresExplained {
		message = ""
	}
	c.State, c.Reason, c.Message, c.Policies = OnboardingFailed, reason, temporal.Cut(message, failureLimit), nil
}

// show makes the change visible, what matters first.
func (r *onboardingRecord) show() {
	order := []OnboardingState{OnboardingFailed, OnboardingRunning, OnboardingWaiting}
	slices.SortStableFunc(r.status.Clusters, func(a, b OnboardingCluster) int {
		return cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State))
	})
	workflow.SetCurrentDetails(r.ctx, onboardingDetails(&r.status))
}

func onboardingDetails(s *OnboardingStatus) string {
	var d details
	d.head("onboarding", fmt.Sprintf("%d onboarded", s.Onboarded))
	d.row("at work", fmt.Sprintf("%d, and %d wait", s.Count(OnboardingRunning), s.Count(OnboardingWaiting)))
	d.row("failed", fmt.Sprint(s.Count(OnboardingFailed)))
	d.wait(s.Wait)
	d.WriteString("\n")
	d.head("cluster", "state", "since", "reason")
	for _, c := range s.Clusters {
		why := c.Reason
		if c.Message != "" {
			why += ": " + c.Message
		}
		d.line(c.Name, string(c.State), c.Since.UTC().Format(clockFormat), why)
	}
	return d.text()
}
