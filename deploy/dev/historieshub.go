package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/devstack/propagator"
	"drydock.dev/drydock/internal/temporal"
)

// Kinds on the hub.
var (
	managedClusterKind = schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1", Kind: "ManagedCluster"}
	policyKind         = schema.GroupVersionKind{Group: "policy.open-cluster-management.io", Version: "v1", Kind: "Policy"}
	workListKind       = schema.GroupVersionKind{Group: "work.open-cluster-management.io", Version: "v1", Kind: "ManifestWorkList"}
)

// hubObjects is the file of the objects that a scenario needs on the hub.
func hubObjects(scenario string) string {
	return filepath.Join(historiesManifests, "hub", scenario+".yaml")
}

// simulatePolicies runs the simulated policy propagator, and returns when the policies have the compliance status of every spoke.
func (r *recorder) simulatePolicies(ctx context.Context) (stop func(), err error) {
	simulated, err := propagator.Start(ctx, r.Hub.Config, propagator.Options{Takes: func(string, string) time.Duration { return 300 * time.Millisecond }})
	if err != nil {
		return nil, err
	}
	err = r.Hub.Apply(ctx, hubObjects("policies"))
	for _, name := range []string{"kernel", "network"} {
		err = errors.Join(err, r.awaitCompliance(ctx, name))
	}
	if err != nil {
		simulated.Stop()
		return nil, err
	}
	return simulated.Stop, nil
}

// awaitCompliance waits until a policy has the compliance status of every spoke. It reads from the API server, because the watch of the fleet has only replicas.
func (r *recorder) awaitCompliance(ctx context.Context, name string) error {
	hub, err := client.New(r.Hub.Config, client.Options{})
	if err != nil {
		return err
	}
	policy := &unstructured.Unstructured{}
	policy.SetGroupVersionKind(policyKind)
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := hub.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, policy)
		statuses, _, _ := unstructured.NestedSlice(policy.Object, "status", "status")
		return len(statuses) == len(r.Spokes), client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("policy %s has no compliance status for every spoke: %w", name, err)
	}
	return nil
}

// appliedWork is the status of an applied ManifestWork.
const appliedWork = `{"status":{"conditions":[{"type":"Applied","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-10T12:00:00Z"},{"type":"Available","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-10T12:00:00Z"}]}}`

// simulateAgents simulates the agents of the spokes, which apply ManifestWorks immediately.
func (r *recorder) simulateAgents(ctx context.Context) (stop func(), err error) {
	if err := r.Hub.Apply(ctx, hubObjects("manifest-works")); err != nil {
		return nil, err
	}
	hub, err := client.NewWithWatch(r.Hub.Config, client.Options{})
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(workListKind)
	works, err := hub.Watch(ctx, list)
	if err != nil {
		return nil, err
	}
	var running sync.WaitGroup
	running.Go(func() {
		for event := range works.ResultChan() {
			if work, ok := event.Object.(*unstructured.Unstructured); ok && event.Type == watch.Added {
				// If the patch fails, the rollout times out, which the recording shows.
				_ = hub.Status().Patch(ctx, work, client.RawPatch(types.MergePatchType, []byte(appliedWork)))
			}
		}
	})
	return func() {
		works.Stop()
		running.Wait()
	}, nil
}

// configurePrecaching configures the images to precache.
func (r *recorder) configurePrecaching(ctx context.Context) (stop func(), err error) {
	return func() {}, r.Hub.Apply(ctx, filepath.Join("docs", "examples", "precaching-config.yaml"))
}

// recordOnboarding onboards a new cluster without policies, stops the onboarding, and saves its history.
func (r *recorder) recordOnboarding(ctx context.Context) error {
	const name = "new-1"
	hub, err := client.New(r.Hub.Config, client.Options{})
	if err != nil {
		return err
	}
	if err := r.Run(ctx, io.Discard, "onboarding", "start"); err != nil {
		return err
	}
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(managedClusterKind)
	cluster.SetName(name)
	if err := hub.Create(ctx, cluster); err != nil {
		return err
	}
	available := `{"status":{"conditions":[{"type":"ManagedClusterConditionAvailable","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-10T12:00:00Z"}]}}`
	if err := hub.Status().Patch(ctx, cluster, client.RawPatch(types.MergePatchType, []byte(available))); err != nil {
		return err
	}
	if err := r.awaitOnboarded(ctx, name); err != nil {
		return err
	}
	if err := r.Run(ctx, io.Discard, "onboarding", "stop"); err != nil {
		return err
	}
	_ = r.server.GetWorkflow(ctx, temporal.OnboardingID, "").Get(ctx, nil) // the history has the result
	return errors.Join(ctx.Err(), r.save(ctx, "onboarding", temporal.OnboardingID), hub.Delete(ctx, cluster))
}

func (r *recorder) awaitOnboarded(ctx context.Context, name string) error {
	kind := &metav1.PartialObjectMetadata{}
	kind.SetGroupVersionKind(managedClusterKind)
	return r.Await(ctx, r.Hub, "cluster "+name+" is onboarded", []client.Object{kind}, func(ctx context.Context, reader client.Reader) (bool, error) {
		seen := kind.DeepCopy()
		err := reader.Get(ctx, client.ObjectKey{Name: name}, seen)
		_, onboarded := seen.Labels["ztp-done"]
		return onboarded, client.IgnoreNotFound(err)
	})
}
