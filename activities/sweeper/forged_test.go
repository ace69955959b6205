package sweeper

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/internal/allow"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// jobsOnly reads a cluster that has nothing but Jobs.
type jobsOnly struct {
	client.Reader
	jobs []metav1.PartialObjectMetadata
}

func (r jobsOnly) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if list, ok := list.(*metav1.PartialObjectMetadataList); ok {
		list.Items = r.jobs
	}
	return nil
}

// jobsAnywhere allows Jobs in all namespaces but Drydock's own.
var jobsAnywhere = allow.List{Jobs: []allow.Job{{Images: []string{"*"}, Namespaces: []string{"*"}}}}

// A tenant gives a Job the mark of a terminated maintenance. Drydock may not delete Jobs there, so the node would stay out of service.
func TestAMarkedJobWhereNoJobsOfMaintenancesRunIsIgnored(t *testing.T) {
	jobs := forged(1)
	marks, ignored, err := findMarks(t.Context(), jobsOnly{jobs: jobs}, allow.List{Jobs: []allow.Job{{Images: []string{"*"}}}})
	require.NoError(t, err)
	require.Empty(t, marks)
	require.Equal(t, 1, ignored)
	for namespace, counts := range map[string]bool{allow.NamespaceJobs: true, allow.NamespacePrivilegedJobs: true, allow.NamespaceSystem: false} {
		jobs[0].Namespace = namespace
		marks, _, err = findMarks(t.Context(), jobsOnly{jobs: jobs}, allow.List{})
		require.NoError(t, err)
		require.Equal(t, counts, len(marks) == 1, namespace)
	}
}

// jobMarkedBy is a Job with Drydock's finalizer and the mark of an owner.
func jobMarkedBy(name, owner string) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "tenant", Name: name, Finalizers: []string{jobs.Finalizer}, Annotations: map[string]string{kube.AnnotationOwner: owner},
	}}
}

// forged are Jobs that a user marked as Drydock marks its own.
func forged(count int) (found []metav1.PartialObjectMetadata) {
	for i := range count {
		name, owner := fmt.Sprintf("m%d", i), fmt.Sprintf("node/spoke/tenant/m%d/run", i)
		found = append(found, jobMarkedBy(jobs.NameOfJob(jobs.RunJobInput{NodeRef: activitykit.NodeRef{Owner: owner}, Maintenance: name}), owner))
	}
	return found
}

func TestMarksThatDrydockCannotHaveWrittenAreIgnoredAndCounted(t *testing.T) {
	tenant := forged(1)
	tenant = append(tenant,
		jobMarkedBy("other-name", kube.Owner(&tenant[0])),
		jobMarkedBy("a", "cgu/default/june/spoke/run"),
		jobMarkedBy("b", "someone"), jobMarkedBy("c", "node/a/b/run"), jobMarkedBy("d", "node/spoke/tenant/d/not a run"),
	)
	for i := range 50 {
		tenant = append(tenant, jobMarkedBy(fmt.Sprintf("large-%d", i), "node/spoke/tenant/"+strings.Repeat(fmt.Sprint(i%10), 240<<10)+"/run"))
	}
	server := activitytest.NewWorkflows()
	search := newSearch(t, server, AwaitOrphansInput{Cluster: activitytest.SpokeName})
	found, err := search.read(t.Context(), jobsOnly{jobs: tenant})
	require.NoError(t, err)
	require.Len(t, found.Unknown, 1)
	require.Equal(t, tenant[0].Name, found.Unknown[0].Name)
	require.Equal(t, len(tenant)-1, found.Ignored)
	payloads, err := temporal.DataConverter().ToPayloads(found)
	require.NoError(t, err)
	require.Less(t, proto.Size(payloads), 4<<10)

	search = newSearch(t, server, AwaitOrphansInput{Cluster: activitytest.SpokeName})
	search.quiet = time.Nanosecond
	found, err = search.read(t.Context(), jobsOnly{jobs: tenant[1:]})
	require.NoError(t, err)
	require.True(t, found.Quiet, "marks of others do not keep the sweeper from resting")
}

// crowd is a server that answers only when a whole batch of requests waits.
type crowd struct {
	*activitytest.Workflows
	mu      sync.Mutex
	waiting int
	full    chan struct{}
}

func (c *crowd) DescribeWorkflowExecution(ctx context.Context, id, run string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	c.mu.Lock()
	if c.waiting++; c.waiting == activitykit.MaxParallelRequests {
		close(c.full)
	}
	c.mu.Unlock()
	select {
	case <-c.full:
	case <-time.After(activitytest.EventTimeout):
		return nil, fmt.Errorf("requests wait for each other")
	}
	return c.Workflows.DescribeWorkflowExecution(ctx, id, run)
}

func TestManyForgedMarksAreLookedUpInBatchesAfterDrydocksOwn(t *testing.T) {
	const budget = 100
	own := Mark{Kind: MarkNode, Name: "worker-1", Node: "worker-1", Owner: "node/spoke/zzz/last-by-name/run"}
	marks, _, err := findMarks(t.Context(), jobsOnly{jobs: forged(5000)}, jobsAnywhere)
	require.NoError(t, err)
	require.Len(t, marks, 5000)
	marks = append(marks, own)
	server := &crowd{Workflows: activitytest.NewWorkflows(), full: make(chan struct{})}
	server.Set(own.Owner, activitytest.WasTerminated)
	owners := newOwners(t.Context(), server, rate.NewLimiter(0, budget), nil)
	states, err := owners.states(t.Context(), marks)
	require.NoError(t, err)
	require.Equal(t, temporal.ChainClosed, states[own.Owner].State, "it is among the first")
	require.Len(t, states, budget)
	require.Equal(t, budget, server.waiting)

	owners.budget = rate.NewLimiter(0, budget)
	states, err = owners.states(t.Context(), marks)
	require.NoError(t, err)
	require.Len(t, states, 2*budget, "the next ones follow")
}

func TestAMarkThatWaitsForItsLookUpKeepsItsFinding(t *testing.T) {
	tenant := jobsOnly{jobs: forged(2)}
	marks, _, err := findMarks(t.Context(), tenant, jobsAnywhere)
	require.NoError(t, err)
	search := newSearch(t, activitytest.NewWorkflows(), AwaitOrphansInput{Cluster: activitytest.SpokeName, Unknown: marks[:1], Left: marks[1:]})
	search.owners.budget = rate.NewLimiter(0, 0)
	found, err := search.read(t.Context(), tenant)
	require.NoError(t, err)
	require.Equal(t, marks[:1], found.Unknown)
	require.Empty(t, found.Gone)
}

// The allow-list may name more namespaces than the role for Jobs is bound in. Drydock cannot delete the Job of a tenant there, and its node would stay out of service.
func TestAMarkedJobWhereDrydockMayNotCreateJobsDoesNotHoldItsNode(t *testing.T) {
	ref := activitytest.TestNode(t)
	in := activitytest.Firmware(t, ref, nil)
	in.Job.Namespace = devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.SpokeName))
	theirs, err := jobs.JobFor(in)
	require.NoError(t, err)
	tenant := activitytest.TestCluster(t).Client
	require.NoError(t, tenant.Create(t.Context(), theirs))
	t.Cleanup(func() {
		released := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		require.NoError(t, tenant.Patch(context.Background(), theirs, released))
	})
	server := activitytest.NewWorkflows()
	server.Set(ref.Owner, activitytest.WasTerminated)
	before := Mark{Kind: MarkJob, Namespace: theirs.Namespace, Name: theirs.Name, Owner: ref.Owner}
	found := look(t, server, AwaitOrphansInput{Left: []Mark{before}})
	require.Equal(t, []MarkKind{MarkNode}, kindsOf(found.Orphans))
	require.Equal(t, 1, found.Ignored)
	require.Equal(t, []Mark{before}, found.Gone, "an earlier version failed to delete it")
}

func TestOrphansThatAreHardToForgeComeFirst(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.Cordon(t, ref)
	server := activitytest.NewWorkflows()
	server.Set(ref.Owner, activitytest.WasTerminated)
	tenant := ref
	tenant.Owner = "node/aaa/default/" + ref.Node + "/first-run"
	theirs, err := jobs.JobFor(activitytest.Firmware(t, ref, nil))
	require.NoError(t, err)
	theirs.Annotations[kube.AnnotationOwner] = tenant.Owner
	theirs.Name = jobs.NameOfJob(jobs.RunJobInput{NodeRef: tenant, Maintenance: ref.Node})
	require.NoError(t, activitytest.TestCluster(t).Client.Create(t.Context(), theirs))
	t.Cleanup(func() {
		require.NoError(t, activitytest.Jobs().RemoveOrphanedJob(context.Background(),
			jobs.OrphanedJob{Cluster: ref.Cluster, Namespace: theirs.Namespace, Name: theirs.Name, Owner: tenant.Owner}))
	})
	server.Set(tenant.Owner, activitytest.WasTerminated)
	require.Equal(t, []MarkKind{MarkNode, MarkJob}, kindsOf(look(t, server, AwaitOrphansInput{}).Orphans))
}
