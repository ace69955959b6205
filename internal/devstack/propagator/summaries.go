package propagator

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// summarize writes the statuses of policies, each some time after those of its replicas, until ctx is done.
func (p *Propagator) summarize(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		}
		if p.pause(ctx) != nil {
			return
		}
		for key, summary := range p.summaries() {
			if err := p.writeSummary(ctx, key, summary); err != nil && ctx.Err() == nil {
				time.AfterFunc(100*time.Millisecond, p.triggerSummaries)
			}
		}
	}
}

func (p *Propagator) triggerSummaries() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// summaries are the compliance of the clusters of each policy, as the replicas have it.
func (p *Propagator) summaries() map[client.ObjectKey][]map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	summaries := map[client.ObjectKey][]map[string]any{}
	for root := range p.known {
		summaries[root] = []map[string]any{}
	}
	for key, r := range p.replicas {
		if _, exists := summaries[r.root]; exists {
			entry := map[string]any{"clustername": key.Namespace, "clusternamespace": key.Namespace}
			if r.status != "" {
				entry["compliant"] = r.status
			}
			summaries[r.root] = append(summaries[r.root], entry)
		}
	}
	for _, entries := range summaries {
		slices.SortFunc(entries, func(a, b map[string]any) int {
			return cmp.Compare(a["clustername"].(string), b["clustername"].(string))
		})
	}
	return summaries
}

// writeSummary writes the status of a policy: the compliance of each of its clusters, and of all together.
func (p *Propagator) writeSummary(ctx context.Context, key client.ObjectKey, entries []map[string]any) error {
	text, err := json.Marshal(entries)
	if err != nil || p.statuses[key] == string(text) {
		return err
	}
	listed := make([]any, len(entries))
	for i, entry := range entries {
		listed[i] = entry
	}
	if err := p.patchStatus(ctx, key, map[string]any{"status": listed, "compliant": rootCompliance(entries)}); err != nil {
		return err
	}
	p.statuses[key] = string(text)
	return nil
}

// rootCompliance is the compliance of a policy: NonCompliant before Pending before unknown before Compliant. Without clusters it is unknown.
func rootCompliance(entries []map[string]any) any {
	for _, worse := range []any{other, pending, nil} {
		if slices.ContainsFunc(entries, func(entry map[string]any) bool { return entry["compliant"] == worse }) {
			return worse
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return compliant
}
