package remediation

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

// lookInterval is the least time between two looks at complete clusters: there may be thousands of them, and others that change all the time.
const lookInterval = 10 * time.Second

// FindRelapses returns the clusters that no longer comply with an item according to the cache, which may lag.
func (s ComplianceReader) FindRelapses(ctx context.Context, clusters []string) ([]string, error) {
	var relapsed []string
	for _, cluster := range clusters {
		status, err := s.cached(ctx, cluster)
		if err != nil {
			return nil, activitykit.Explain(s.Hub, "look at complete clusters again", err)
		}
		if status.Relapsed() != policies.NoItem {
			relapsed = append(relapsed, cluster)
		}
	}
	return relapsed, nil
}

// cached is the compliance of a cluster in the cache.
func (s ComplianceReader) cached(ctx context.Context, cluster string) (policies.ComplianceStatus, error) {
	letters := make([]byte, len(s.Names))
	for item, name := range s.Names {
		object := s.newObject()
		switch err := s.Hub.Cache.Get(ctx, client.ObjectKey{Namespace: cluster, Name: name}, object); {
		case apierrors.IsNotFound(err):
			object = nil
		case err != nil:
			return "", err
		}
		compliance, _ := s.Judge(item, object)
		letters[item] = byte(compliance)
	}
	return policies.ComplianceStatus(letters), nil
}

// AwaitRelapses waits until some clusters no longer comply with an item, and returns them. It reads those that it would return from the API server.
func (s ComplianceReader) AwaitRelapses(ctx context.Context, clusters []string) ([]policies.ClusterCompliance, error) {
	var relapses []policies.ClusterCompliance
	var next time.Time
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	err := activitykit.Waits{}.AwaitAlarm(ctx, alarm.C, s.Hub, []client.Object{s.newObject()}, func(ctx context.Context) (temporal.Observation, bool, error) {
		if early := next.Sub(s.now()); early > 0 {
			alarm.Reset(early)
			return temporal.Observation{}, false, nil
		}
		suspects, err := s.FindRelapses(ctx, clusters)
		if err == nil {
			relapses, err = s.Read(ctx, suspects)
		}
		relapses = slices.DeleteFunc(relapses, func(cluster policies.ClusterCompliance) bool { return cluster.Status.Relapsed() == policies.NoItem })
		next = s.now().Add(lookInterval)
		return temporal.Observation{}, len(relapses) > 0, err
	})
	return relapses, err
}
