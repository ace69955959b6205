package snapshot

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
)

// confirmCompliance confirms that selected clusters are Compliant by the replicas of the policies. The status of a policy summarizes its replicas some time
// later, and does not tell the age of what it says. settles is when the compliance of a cluster may begin to count without a change on the hub; zero: it does
// not.
func confirmCompliance(ctx context.Context, reader client.Reader, found []rollout.Policy, selected []string, now time.Time) (settles time.Time, err error) {
	var mu sync.Mutex
	confirmed := make([]map[string]bool, len(found))
	reads, reading := errgroup.WithContext(ctx)
	reads.SetLimit(maxConcurrentReads)
	for i, policy := range found {
		confirmed[i] = map[string]bool{}
		compliant := slices.DeleteFunc(slices.Clone(selected), func(cluster string) bool { return !policy.Compliant[cluster] })
		for some := range slices.Chunk(compliant, clustersPerRead) {
			reads.Go(func() error {
				for _, cluster := range some {
					is, again, err := confirm(reading, reader, policy, cluster, now)
					if err != nil {
						return err
					}
					mu.Lock()
					confirmed[i][cluster] = is
					if !again.IsZero() && (settles.IsZero() || again.Before(settles)) {
						settles = again
					}
					mu.Unlock()
				}
				return nil
			})
		}
	}
	if err := reads.Wait(); err != nil {
		return time.Time{}, err
	}
	for i := range found {
		for cluster, is := range confirmed[i] {
			found[i].Compliant[cluster] = is
		}
	}
	return settles, nil
}

// clustersPerRead is how many clusters are confirmed one after the other.
const clustersPerRead = 100

// confirm reports whether a cluster is Compliant by its replica of a policy, and otherwise when to look again; zero: after a change.
func confirm(ctx context.Context, reader client.Reader, policy rollout.Policy, cluster string, now time.Time) (is bool, again time.Time, err error) {
	replica := &unstructured.Unstructured{}
	replica.SetGroupVersionKind(policies.Policies)
	ref := policies.Ref{Namespace: policy.Namespace, Name: policy.Name}
	err = reader.Get(ctx, client.ObjectKey{Namespace: cluster, Name: ref.Replica()}, replica)
	switch {
	case apierrors.IsNotFound(err):
		return false, time.Time{}, nil
	case err != nil:
		return false, time.Time{}, fmt.Errorf("get policy %s/%s: %w", cluster, ref.Replica(), err)
	}
	compliance, settles := policies.ReadReport(replica).Judge(policy.Specified)
	if compliance != policies.Outdated || settles.After(now) {
		return compliance == policies.Compliant, settles, nil
	}
	registered := &unstructured.Unstructured{}
	registered.SetGroupVersionKind(policies.ManagedClusters)
	err = reader.Get(ctx, client.ObjectKey{Name: cluster}, registered)
	if client.IgnoreNotFound(err) != nil {
		return false, time.Time{}, fmt.Errorf("get ManagedCluster %s: %w", cluster, err)
	}
	if err != nil || !policies.Available(registered) {
		return false, now.Add(policies.Settle), nil
	}
	return true, time.Time{}, nil
}
