package propagator

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// judge applies enforced replicas, and writes the compliance of the clusters.
func (p *Propagator) judge(ctx context.Context, roots map[client.ObjectKey]*unstructured.Unstructured) error {
	p.mu.Lock()
	changed := map[client.ObjectKey]string{}
	standings := map[client.ObjectKey][]any{}
	for took := true; took; { // a replica may depend on one that has just taken effect
		took = false
		for key, r := range p.replicas {
			if r.enforces && p.standing(key, nil) == other {
				took = p.enforce(key, r.content) || took
			}
		}
	}
	for key, r := range p.replicas {
		status := p.standing(key, nil)
		if status != r.status {
			changed[key] = status
		}
		standings[r.root] = append(standings[r.root], map[string]any{"clustername": key.Namespace, "clusternamespace": key.Namespace, "compliant": status})
	}
	p.mu.Unlock()
	var writes errgroup.Group
	writes.SetLimit(writesAtOnce)
	for key, status := range changed {
		writes.Go(func() error { return p.say(ctx, key, status) })
	}
	if err := writes.Wait(); err != nil {
		return err
	}
	for key := range roots {
		if err := p.sum(ctx, key, standings[key]); err != nil {
			return err
		}
	}
	return nil
}

// enforce makes the cluster comply after Options.Takes, and reports whether it complies at once. The caller holds the lock.
func (p *Propagator) enforce(key client.ObjectKey, content string) bool {
	cluster := key.Namespace
	if p.complies[cluster][content] || p.underWay[cluster][content] {
		return false
	}
	takes := p.options.Takes(cluster, key.Name)
	if takes < 0 {
		return false
	}
	if p.complies[cluster] == nil {
		p.complies[cluster] = map[string]bool{}
	}
	if p.underWay[cluster] == nil {
		p.underWay[cluster] = map[string]bool{}
	}
	if takes == 0 {
		p.complies[cluster][content] = true
		return true
	}
	p.underWay[cluster][content] = true
	time.AfterFunc(takes, func() {
		p.mu.Lock()
		delete(p.underWay[cluster], content)
		// A cluster that was unbound meanwhile keeps its state.
		enforced := false
		for at, r := range p.replicas {
			enforced = enforced || at.Namespace == cluster && r.content == content && r.enforces && p.standing(at, nil) != pending
		}
		if enforced {
			p.complies[cluster][content] = true
		}
		p.mu.Unlock()
		p.look()
	})
	return false
}

// say writes the status of a replica policy.
func (p *Propagator) say(ctx context.Context, key client.ObjectKey, status string) error {
	if err := p.patchStatus(ctx, key, map[string]any{"compliant": status}); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, exists := p.replicas[key]; exists {
		r.status = status
		p.replicas[key] = r
	}
	return nil
}

// sum writes the status of a policy: the compliance of each of its clusters.
func (p *Propagator) sum(ctx context.Context, key client.ObjectKey, standings []any) error {
	slices.SortFunc(standings, func(a, b any) int {
		return strings.Compare(a.(map[string]any)["clustername"].(string), b.(map[string]any)["clustername"].(string))
	})
	text, err := json.Marshal(standings)
	if err != nil || p.statuses[key] == string(text) {
		return err
	}
	if err := p.patchStatus(ctx, key, map[string]any{"status": standings}); err != nil {
		return err
	}
	p.statuses[key] = string(text)
	return nil
}

func (p *Propagator) patchStatus(ctx context.Context, key client.ObjectKey, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(policyKind)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	return client.IgnoreNotFound(p.client.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)))
}
