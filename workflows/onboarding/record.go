package onboarding

import (
	"cmp"
	"fmt"
	"slices"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	onboardingactivities "drydock.dev/drydock/activities/onboarding"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// State is the state of a cluster that is not onboarded yet.
type State string

// The states, in display order.
const (
	// Failed: its rollout did not succeed, or could not be started.
	Failed State = "failed"
	// Running: its rollout is in progress.
	Running State = "running"
	// Waiting: the limit of concurrent rollouts is reached.
	Waiting State = "waiting"
)

// Cluster is a cluster that is not onboarded yet.
type Cluster struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Policies of its rollout in order, until RunID is known. Without policies, the rollout only labels the cluster.
	Policies []string `json:"policies,omitempty"`
	// Object: its rollout has an object on the hub.
	Object bool `json:"object,omitempty"`
	// RunID is the run of its rollout.
	RunID string `json:"runID,omitempty"`
	// Reason and Message are why it failed, or why its rollout has not started.
	Reason  string      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	Since   metav1.Time `json:"since"`
}

// Status lists the clusters that are being onboarded, wait for it, or failed.
type Status struct {
	StartedAt metav1.Time `json:"startedAt"`
	// Onboarded counts the onboarded clusters since StartedAt.
	Onboarded int `json:"onboarded"`
	// Clusters that are not onboarded: failed ones first, then running ones, then waiting ones.
	Clusters []Cluster `json:"clusters"`
	// Wait is why the hub cannot be watched.
	Wait *drydockv1.Wait `json:"wait,omitempty"`
	// Message describes how the workflow ended.
	Message string `json:"message,omitempty"`
}

// Count returns the number of clusters in a state.
func (s *Status) Count(state State) int {
	count := 0
	for _, cluster := range s.Clusters {
		if cluster.State == state {
			count++
		}
	}
	return count
}

// record keeps the status and publishes every change: the query, current details of the Web UI, and log.
type record struct {
	ctx    workflow.Context
	status Status
	// followed are the clusters whose rollout this run waits for.
	followed map[string]bool
	reason   kit.CurrentReason
	log      log.Logger
}

func newRecord(ctx workflow.Context, carried *Status) *record {
	r := &record{ctx: ctx, followed: map[string]bool{}, log: workflow.GetLogger(ctx)}
	r.status = Status{StartedAt: metav1.NewTime(workflow.Now(ctx)), Clusters: []Cluster{}}
	if carried != nil {
		r.status = *carried
	}
	r.reason = kit.CurrentReason{Attributes: &kit.SearchAttributes{Ctx: ctx}, Wait: &r.status.Wait, Show: r.show}
	return r
}

func (r *record) cluster(name string) *Cluster {
	i := slices.IndexFunc(r.status.Clusters, func(c Cluster) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &r.status.Clusters[i]
}

// known returns the clusters that are not new.
func (r *record) known() (in onboardingactivities.AwaitNewClustersInput) {
	for _, c := range r.status.Clusters {
		switch {
		case c.State != Failed:
			in.Running = append(in.Running, c.Name)
		case c.Object:
			in.Objects = append(in.Objects, c.Name)
			fallthrough
		default:
			in.Failed = append(in.Failed, c.Name)
		}
	}
	return in
}

// found adds a new cluster. A cluster whose policies cannot be ordered has failed.
func (r *record) found(ctx workflow.Context, found onboardingactivities.NewCluster) {
	if r.cluster(found.Name) != nil {
		return // it was found before its rollout ended
	}
	cluster := Cluster{Name: found.Name, State: Waiting, Policies: found.Policies, Since: metav1.NewTime(workflow.Now(ctx))}
	if found.Problem != "" {
		r.fail(&cluster, temporal.ErrInvalidSpec, found.Problem)
	}
	r.status.Clusters = append(r.status.Clusters, cluster)
	r.log.Info("New cluster found", "cluster", found.Name, "policies", len(found.Policies))
	r.show()
}

// settled removes failed clusters, so that they can be found again.
func (r *record) settled(names []string) {
	r.status.Clusters = slices.DeleteFunc(r.status.Clusters, func(c Cluster) bool {
		return c.State == Failed && slices.Contains(names, c.Name)
	})
	r.show()
}

// next returns the clusters to start or to follow, up to the limit of running ones: first those that an earlier run started, then the longest waiting.
func (r *record) next(atOnce int) []Cluster {
	var next []Cluster
	running := 0
	for i := range r.status.Clusters {
		c := &r.status.Clusters[i]
		if c.State != Running {
			continue
		}
		running++
		if !r.followed[c.Name] {
			r.followed[c.Name] = true
			next = append(next, *c)
		}
	}
	for i := range r.status.Clusters {
		c := &r.status.Clusters[i]
		if c.State != Waiting || running >= atOnce {
			continue
		}
		running++
		c.State, r.followed[c.Name] = Running, true
		next = append(next, *c)
	}
	if len(next) > 0 {
		r.show()
	}
	return next
}

// waits records why the rollout of a cluster cannot start yet; empty: nothing is known to hold it.
func (r *record) waits(name, reason, message string) {
	c := r.cluster(name)
	c.Reason, c.Message = reason, temporal.Cut(message, failureLimit)
	r.show()
}

// hasObject records whether the rollout of a cluster has an object.
func (r *record) hasObject(name string, has bool) {
	r.cluster(name).Object = has
	r.waits(name, "", "")
}

// started records the run of a cluster's rollout.
func (r *record) started(ctx workflow.Context, name, runID string) {
	c := r.cluster(name)
	r.log.Info("Onboarding of a cluster started", "cluster", name, "rollout", rollout.OnboardingNamespace+"/"+name)
	c.RunID, c.Policies, c.Since = runID, nil, metav1.NewTime(workflow.Now(ctx))
	r.show()
}

// foundRunning records that the rollout of a cluster was started outside of onboarding. The cluster keeps its policies, in case that rollout ends
// before its run is known and another must be started.
func (r *record) foundRunning(ctx workflow.Context, name string) {
	r.cluster(name).Since = metav1.NewTime(workflow.Now(ctx))
	r.show()
}

// ended records the end of a cluster's rollout. An onboarded cluster is removed.
func (r *record) ended(ctx workflow.Context, name string, end onboardingactivities.RolloutEnd) {
	delete(r.followed, name)
	if end.Succeeded {
		r.status.Onboarded++
		r.log.Info("Cluster onboarded", "cluster", name)
		r.status.Clusters = slices.DeleteFunc(r.status.Clusters, func(c Cluster) bool { return c.Name == name })
	} else {
		c := r.cluster(name)
		r.fail(c, end.Reason, end.Message)
		c.Since, c.RunID = metav1.NewTime(workflow.Now(ctx)), ""
	}
	r.show()
}

const (
	// failuresExplained limits the failed clusters with a message: most failures are alike, and the status must fit into the input of the next run,
	// which the server limits to 2 MiB.
	failuresExplained = 500
	// failureLimit is the largest length of a message in bytes. The rollout has the whole message.
	failureLimit = 300
)

// fail records why a cluster could not be onboarded.
func (r *record) fail(c *Cluster, reason, message string) {
	r.log.Error("Onboarding of a cluster failed", "cluster", c.Name, "reason", reason, "error", message)
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

// show sorts the clusters and publishes the status.
func (r *record) show() {
	order := []State{Failed, Running, Waiting}
	slices.SortStableFunc(r.status.Clusters, func(a, b Cluster) int {
		return cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State))
	})
	workflow.SetCurrentDetails(r.ctx, details(&r.status))
}

func details(s *Status) string {
	var d kit.Details
	d.Head("onboarding", fmt.Sprintf("%d onboarded", s.Onboarded))
	d.Row("running", fmt.Sprintf("%d, %d waiting", s.Count(Running), s.Count(Waiting)))
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
