package main

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"drydock.dev/drydock/internal/operators"
	"drydock.dev/drydock/internal/setup"
)

// objectsFinding says on which kinds of objects workers with controllers act in a cluster, and why not on the others. off returns why a kind is left alone;
// empty: it is not.
func objectsFinding(at place, off func(schema.GroupVersionKind) string) finding {
	var acts, reasons []string
	left := map[string][]string{}
	for _, kind := range operators.Steered(at.site == setup.Hub) {
		why := off(kind)
		if why == "" {
			acts = append(acts, kind.Kind)
			continue
		}
		if left[why] == nil {
			reasons = append(reasons, why)
		}
		left[why] = append(left[why], kind.Kind)
	}
	var texts []string
	if len(acts) > 0 {
		texts = append(texts, "workers with controllers act on "+strings.Join(acts, ", "))
	}
	for _, why := range reasons {
		texts = append(texts, "not on "+strings.Join(left[why], ", ")+": "+why)
	}
	return well(at.String()+": objects", strings.Join(texts, "; "))
}

// offReason returns why workers leave the objects of a kind alone, by the rules of their controllers; empty: they do not. pruned are the CRDs that lack fields
// of Drydock's.
func offReason(asked discovery.DiscoveryInterface, pruned []string, running []operators.Operator, unknown error) func(schema.GroupVersionKind) string {
	return func(kind schema.GroupVersionKind) string {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		resource := plural.GroupResource()
		served, err := asked.ServerResourcesForGroupVersion(kind.GroupVersion().String())
		isServed := err == nil && slices.ContainsFunc(served.APIResources, func(known metav1.APIResource) bool { return known.Name == resource.Resource })
		i := slices.IndexFunc(running, func(operator operators.Operator) bool { return slices.Contains(operator.Kinds, resource) })
		switch {
		case !isServed:
			return "not served"
		case unknown != nil:
			return "unknown whether other operators act on them"
		case i >= 0:
			return "Deployment " + running[i].NamespacedName.String() + " acts on them"
		case kind.Kind == "HarborCluster" && slices.Contains(pruned, resource.String()):
			return "its CRD is not Drydock's: see docs/how-to/migrate-from-the-harbor-operator.md"
		}
		return ""
	}
}
