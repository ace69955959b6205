package jobs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/internal/devstack/agent"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/views"
)

func TestTheAgentOfAClusterWithoutCredentialsPrecaches(t *testing.T) {
	i := newIsland(t)
	in := i.preparation("island-june", precache.Precaching)
	end := startPreparation(t, in)
	pod := podOf(t, in)
	require.Equal(t, "pre-cache-agent", pod.Spec.ServiceAccountName)
	var config corev1.ConfigMap
	require.Eventually(t, func() bool {
		return activitytest.TestCluster(t).Client.Get(t.Context(), client.ObjectKey{Namespace: precache.NamespacePrecaching, Name: in.Name()}, &config) == nil
	}, activitytest.EventTimeout, 50*time.Millisecond)
	require.Equal(t, "a\nb", config.Data["additionalImages"])
	job := clusterJob(t, in)
	require.Equal(t, job.UID, config.OwnerReferences[0].UID, "it is deleted with the Job")
	require.Equal(t, in.Owner, kube.Owner(job))

	activitytest.TestNode(t)
	require.NoError(t, <-end)
	require.NoError(t, activitytest.Jobs().RunClusterJob(t.Context(), in), "an attempt whose reply was lost sees that the work is done")
	require.Equal(t, []string{"job " + job.Namespace + "/" + job.Name, "configmap " + job.Namespace + "/" + job.Name}, i.created(), "the other objects exist")
	i.remove(in)
	i.requireGone(in)
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(activitytest.TestCluster(t).Client.Get(t.Context(), client.ObjectKeyFromObject(&config), &config))
	}, activitytest.EventTimeout, 50*time.Millisecond)
	i.remove(in)
}

func TestAnOldClusterIsPrecachedByItsAgent(t *testing.T) {
	i := newIsland(t)
	i.old.Store(true)
	in := i.preparation("island-old", precache.Precaching)
	end := startPreparation(t, in)
	require.Eventually(t, func() bool {
		return activitytest.TestCluster(t).Client.Get(t.Context(), client.ObjectKey{Namespace: precache.NamespacePrecaching, Name: in.Name()}, &corev1.ConfigMap{}) == nil
	}, activitytest.EventTimeout, 50*time.Millisecond)
	activitytest.TestNode(t)
	require.NoError(t, <-end)
	i.remove(in)
	i.requireGone(in)
}

func TestTheAgentCreatesWhatTheJobNeedsInOrder(t *testing.T) {
	spoke := activitytest.TestCluster(t)
	key := client.ObjectKey{Name: precache.NamespaceBackup}
	require.NoError(t, spoke.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}))
	t.Cleanup(func() {
		require.NoError(t, activitytest.Stack.Cluster(activitytest.SpokeName).Apply(context.Background(), "deploy/rbac/preparation.yaml"))
	})
	i := newIsland(t) // the agent is asked again until the old namespace is gone
	in := i.preparation("island-first", precache.Backup)
	activitytest.TestNode(t)
	require.NoError(t, <-startPreparation(t, in))
	require.Equal(t, []string{
		"namespace /" + key.Name, "serviceaccount " + key.Name + "/backup-agent", "rolebinding " + key.Name + "/backup-agent", "job " + key.Name + "/" + in.Name(),
	}, i.created())
	var namespace corev1.Namespace
	require.NoError(t, spoke.Client.Get(t.Context(), key, &namespace))
	require.Equal(t, "privileged", namespace.Labels["pod-security.kubernetes.io/enforce"])
	var binding rbacv1.RoleBinding
	require.NoError(t, spoke.Client.Get(t.Context(), client.ObjectKey{Namespace: key.Name, Name: "backup-agent"}, &binding))
	require.Equal(t, "system:openshift:scc:privileged", binding.RoleRef.Name, "and no administrator")
	i.remove(in)
	i.requireGone(in)
}

func TestAFailedJobOfAnAgentIsReportedAndKept(t *testing.T) {
	i := newIsland(t)
	in := i.preparation("island-july", precache.Backup)
	end := startPreparation(t, in)
	pod := podOf(t, in)
	require.NoError(t, activitytest.TestCluster(t).Client.Status().Patch(t.Context(), pod, client.RawPatch(types.StrategicMergePatchType, []byte(`{"status":{"phase":"Failed"}}`))))
	err := <-end
	require.Equal(t, temporal.ErrJobFailed, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "failed on cluster "+i.name+": BackoffLimitExceeded")
	require.ErrorContains(t, err, "kubectl logs -n openshift-talo-backup job/"+in.Name())
	i.remove(in)
	require.NotNil(t, clusterJob(t, in), "ttlSecondsAfterFinished keeps it for a day")

	overtime := i.preparation("island-overtime", precache.Precaching)
	overtime.Work.Timeout = time.Second
	err = <-startPreparation(t, overtime)
	require.Equal(t, temporal.ErrJobTimedOut, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "DeadlineExceeded")
}

func TestAnAgentThatDoesNotAnswerTimesOutAndGetsNothingLater(t *testing.T) {
	tests := map[string]struct {
		disturb func(*island)
		says    string
	}{
		"it reads nothing":       {func(i *island) { i.offline.Store(true) }, "waiting for the agent of the cluster to read job openshift-talo-pre-cache/"},
		"it carries nothing out": {func(i *island) { i.refuse(agent.ErrNotBegun) }, "waiting for the agent of the cluster to create Namespace openshift-talo-pre-cache since "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			i := newIsland(t)
			tt.disturb(i)
			in := i.preparation("island-silent", precache.Precaching)
			i.timeOut(in, tt.says)
			in.Deadline = time.Now().Add(time.Second)
			_ = activitytest.Jobs().RemoveClusterJob(t.Context(), in) // it fails if the agent should answer
			i.requireNothingLeft()
			require.Empty(t, i.agents.Actions())
			require.Nil(t, clusterJob(t, in))
		})
	}
}

// The activity does not wait for an agent that is offline: it would take a slot.
func TestAnAgentThatIsOfflineIsNotAsked(t *testing.T) {
	i := newIsland(t)
	i.setAvailable(metav1.ConditionUnknown)
	in := i.preparation("island-offline", precache.Backup)
	err := <-startPreparation(t, in)
	require.Equal(t, temporal.ErrAgentOffline, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "its ManagedCluster is not Available since 2026-01-10T12:00:00Z; job openshift-talo-backup/"+in.Name()+" is created when it is back")
	i.requireNothingLeft()
	i.setAvailable(metav1.ConditionTrue)
	end := startPreparation(t, in)
	podOf(t, in)
	activitytest.TestNode(t)
	require.NoError(t, <-end)
	i.remove(in)
}

func TestAnAgentThatGoesOffline(t *testing.T) {
	t.Run("before the Job exists", func(t *testing.T) {
		i := newIsland(t)
		i.refuse(agent.ErrNotBegun)
		in := i.preparation("island-leaves", precache.Backup)
		end := startPreparation(t, in)
		i.await(views.Actions, 1)
		i.setAvailable(metav1.ConditionFalse)
		err := <-end
		require.Equal(t, temporal.ErrAgentOffline, temporal.ErrorType(err), "%v", err)
		i.remove(in)
		i.requireNothingLeft()
		i.accept()
		require.Empty(t, i.agents.Actions())
	})
	t.Run("while its Job runs", func(t *testing.T) {
		i := newIsland(t)
		in := i.preparation("island-keeps", precache.Backup)
		end := startPreparation(t, in)
		podOf(t, in)
		i.awaitViewed()
		i.setAvailable(metav1.ConditionFalse)
		attempt := startPreparation(t, in) // of another worker
		activitytest.TestNode(t)
		require.NoError(t, <-end)
		require.NoError(t, <-attempt)
		i.setAvailable(metav1.ConditionTrue)
		i.remove(in)
	})
}

// The agent has created an object, and crashes before it reports that.
func TestAnObjectWhoseCreationWasNotReportedIsFound(t *testing.T) {
	i := newIsland(t)
	i.forgets.Store(true)
	in := i.preparation("island-forgets", precache.Backup)
	activitytest.TestNode(t)
	require.NoError(t, <-startPreparation(t, in))
	require.GreaterOrEqual(t, i.attempts.Load(), int32(8), "each object twice")
	require.NotNil(t, clusterJob(t, in))
	i.forgets.Store(false)
	i.remove(in)
}

func TestAWorkerMayBeKilledAtAnyTime(t *testing.T) {
	i := newIsland(t)
	in := i.preparation("island-killed", precache.Precaching)
	changes := func() (seen []string) {
		for _, kind := range []schema.GroupVersionKind{views.Views, views.Actions} {
			for _, object := range i.onHub(kind) {
				seen = append(seen, string(object.GetUID())+object.GetResourceVersion())
			}
		}
		return seen
	}
	for finished := false; !finished; {
		before := changes()
		attempt, kill := context.WithCancel(t.Context())
		end := make(chan error, 1)
		go func() { end <- activitytest.Jobs().RunClusterJob(attempt, in) }()
		require.Eventually(t, func() bool { return len(end) > 0 || !slices.Equal(before, changes()) }, activitytest.EventTimeout, time.Millisecond)
		if created := i.created(); len(created) == 2 && created[1] == "configmap "+precache.NamespacePrecaching+"/"+in.Name() {
			activitytest.TestNode(t)
			require.NoError(t, <-end)
			finished = true
		}
		kill()
	}
	require.Len(t, i.created(), 2, "each once")
	i.remove(in)
	i.requireGone(in)
}

func TestObjectsThatOthersDelete(t *testing.T) {
	t.Run("a view and an action are created again", func(t *testing.T) {
		i := newIsland(t)
		i.refuse(agent.ErrNotBegun)
		in := i.preparation("island-deleted", precache.Backup)
		end := startPreparation(t, in)
		for _, kind := range []schema.GroupVersionKind{views.Views, views.Actions} {
			deleted := i.await(kind, 1)[0]
			require.NoError(t, activitytest.BareCluster(t).Client.Delete(t.Context(), &deleted))
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				now := i.onHub(kind)
				if assert.Len(c, now, 1) {
					assert.NotEqual(c, deleted.GetUID(), now[0].GetUID())
				}
			}, activitytest.EventTimeout, 20*time.Millisecond)
		}
		i.accept()
		podOf(t, in)
		activitytest.TestNode(t)
		require.NoError(t, <-end)
	})
	t.Run("the Job has failed", func(t *testing.T) {
		i := newIsland(t)
		in := i.preparation("island-lost", precache.Backup)
		end := startPreparation(t, in)
		podOf(t, in)
		i.awaitViewed()
		require.NoError(t, activitytest.TestCluster(t).Client.Delete(t.Context(), clusterJob(t, in), client.PropagationPolicy(metav1.DeletePropagationBackground)))
		err := <-end
		require.Equal(t, temporal.ErrJobFailed, temporal.ErrorType(err), "%v", err)
		require.ErrorContains(t, err, "was deleted before it was complete")
		i.remove(in)
	})
}

func TestARefusedActionIsNamedAndRepeated(t *testing.T) {
	i := newIsland(t)
	i.refuse(errors.New(`namespaces is forbidden: User "agent" cannot create resource "namespaces"`))
	in := i.preparation("island-refused", precache.Backup)
	err := i.timeOut(in, "the agent of the cluster could not create Namespace openshift-talo-backup, and is asked again: failed to handle Create action with err: namespaces is forbidden")
	require.ErrorContains(t, err, "grant the agent this right")
	in.Deadline = time.Now().Add(time.Hour)
	end := startPreparation(t, in)
	i.accept()
	podOf(t, in)
	activitytest.TestNode(t)
	require.NoError(t, <-end)
}

// Anyone with rights on the cluster may have created it, and an action may have been created by an administrator of the hub.
func TestAJobOfAnotherOwnerIsNotTakenForOurs(t *testing.T) {
	i := newIsland(t)
	in := i.preparation("island-foreign", precache.Backup)
	foreign := in.Work.Job(in.Name())
	metav1.SetMetaDataAnnotation(&foreign.ObjectMeta, kube.AnnotationOwner, "cgu/ops/another/run")
	activitytest.Create(t, activitytest.TestCluster(t), foreign)
	err := activitytest.Jobs().RunClusterJob(t.Context(), in)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "exists and is not ours")
	i.remove(in)
	require.NotNil(t, clusterJob(t, in))
	require.Empty(t, i.agents.Actions())
}

func TestTheAgentIsNotAskedForWhatIsNotAllowed(t *testing.T) {
	i := newIsland(t)
	for name, change := range map[string]func(*jobs.ClusterJob){
		temporal.ErrInvalidSpec: func(in *jobs.ClusterJob) { in.Work.Image = "elsewhere.example.com/work:1" },
		temporal.ErrHeld:        func(in *jobs.ClusterJob) { in.Held = "cluster is held" },
	} {
		in := i.preparation("island-"+strings.ToLower(name), precache.Precaching)
		change(&in)
		err := activitytest.Jobs().RunClusterJob(t.Context(), in)
		require.Equal(t, name, temporal.ErrorType(err), "%v", err)
		require.Empty(t, i.onHub(views.Actions))
		require.Empty(t, i.agents.Actions())
	}
}

func TestARunningJobOfAnAgentIsStopped(t *testing.T) {
	i := newIsland(t)
	in := i.preparation("island-stopped", precache.Precaching)
	attempt, cancel := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() { end <- activitytest.Jobs().RunClusterJob(attempt, in) }()
	podOf(t, in)
	cancel()
	require.ErrorIs(t, <-end, context.Canceled)
	i.remove(in)
	i.requireGone(in)
}

func TestAClusterThatIsNotRegisteredFails(t *testing.T) {
	in := preparation("nowhere", precache.Backup)
	in.Cluster = "nowhere"
	err := activitytest.Jobs().RunClusterJob(t.Context(), in)
	require.Equal(t, temporal.ErrNotFound, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "ManagedCluster nowhere does not exist")
}

// An administrator may grant the right while the rollout waits.
func TestARightThatIsMissingOnTheHubIsNamed(t *testing.T) {
	i := newIsland(t)
	account, err := activitytest.Stack.Cluster(activitytest.HubName).ServiceAccountConfig(t.Context(), "drydock-system", "drydock-initiator")
	require.NoError(t, err)
	clusters := kube.New(kube.FromConfigs(account, nil), kube.Options{})
	t.Cleanup(clusters.Close)
	err = (&jobs.Activities{Clusters: clusters}).RunClusterJob(t.Context(), i.preparation("island-forbidden", precache.Backup))
	require.Equal(t, temporal.ErrForbidden, temporal.ErrorType(err), "%v", err)
	require.False(t, temporal.Final(err))
	require.ErrorContains(t, err, "apply deploy/rbac/hub.yaml and views.yaml on it")
}

// The spoke serves no views.
func TestAHubWithoutViewsIsNoWayToAClusterWithoutCredentials(t *testing.T) {
	clusters := kube.New(kube.FromConfigs(activitytest.Stack.Cluster(activitytest.SpokeName).Config, nil), kube.Options{})
	t.Cleanup(clusters.Close)
	in := preparation("nowhere", precache.Backup)
	in.Cluster = "nowhere"
	err := (&jobs.Activities{Clusters: clusters}).RunClusterJob(t.Context(), in)
	require.Equal(t, temporal.ErrClusterUnknown, temporal.ErrorType(err), "%v", err)
}
