package propagator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// evaluate applies enforced replicas, and writes the compliance of the clusters.
func (p *Propagator) evaluate(ctx context.Context) error {
	p.mu.Lock()
	updates := map[client.ObjectKey]string{}
	for changed := true; changed; { // a replica may depend on one that has just become compliant
		changed = false
		for key, r := range p.replicas {
			if r.enforces && r.failure == "" && p.complianceOf(key, nil) == other {
				changed = p.enforce(key, r.content) || changed
			}
		}
	}
	for key, r := range p.replicas {
		status := p.complianceOf(key, nil)
		if status != r.status || !r.evaluated {
			updates[key] = status
		}
	}
	p.mu.Unlock()
	var writes errgroup.Group
	writes.SetLimit(writesAtOnce)
	for key, status := range updates {
		writes.Go(func() error { return p.writeStatus(ctx, key, status) })
	}
	err := writes.Wait()
	p.triggerSummaries()
	return err
}

// enforce makes the cluster comply after Options.Takes, and reports whether it complies immediately. The caller holds the lock.
func (p *Propagator) enforce(key client.ObjectKey, content string) bool {
	cluster := key.Namespace
	if p.complies[cluster][content] || p.inProgress[cluster][content] {
		return false
	}
	takes := p.options.Takes(cluster, key.Name)
	if takes < 0 {
		return false
	}
	if p.complies[cluster] == nil {
		p.complies[cluster] = map[string]bool{}
	}
	if p.inProgress[cluster] == nil {
		p.inProgress[cluster] = map[string]bool{}
	}
	if takes == 0 {
		p.complies[cluster][content] = true
		return true
	}
	p.inProgress[cluster][content] = true
	time.AfterFunc(takes, func() {
		p.mu.Lock()
		delete(p.inProgress[cluster], content)
		// A cluster that was unbound in the meantime keeps its state.
		enforced := false
		for at, r := range p.replicas {
			enforced = enforced || at.Namespace == cluster && r.content == content && r.enforces && p.complianceOf(at, nil) != pending
		}
		if enforced {
			p.complies[cluster][content] = true
		}
		p.mu.Unlock()
		p.trigger()
	})
	return false
}

// writeStatus writes the status of a replica. An agent reports an evaluation after each change of a template, and names its event after the time.
func (p *Propagator) writeStatus(ctx context.Context, key client.ObjectKey, status string) error {
	now := time.Now().UTC()
	if err := p.patchStatus(ctx, key, map[string]any{"compliant": status, "details": []any{map[string]any{
		"templateMeta": map[string]any{"name": key.Name}, "compliant": status,
		"history": []any{map[string]any{
			"lastTimestamp": now.Format(time.RFC3339), "eventName": fmt.Sprintf("%s.%x", key.Name, now.UnixNano()), "message": status,
		}},
	}}}); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, exists := p.replicas[key]; exists {
		r.status, r.evaluated = status, true
		p.replicas[key] = r
	}
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
