package drain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// ReasonPodOrder: pods of a lower order have not left yet.
const ReasonPodOrder Reason = "PodOrder"

// place is one entry of podOrder: the order of the pods that a selector matches.
type place struct {
	selector labels.Selector
	order    int32
}

func parseOrder(entries []maintenancev1.PodOrder, path *field.Path) (places []place, problems field.ErrorList) {
	for i, entry := range entries {
		at := path.Index(i).Child("podSelector")
		if entry.PodSelector == "" {
			problems = append(problems, field.Required(at, "an entry that selects every pod makes the entries after it useless; pods that no entry selects have order 0"))
			continue
		}
		selector, invalid := parseSelector(entry.PodSelector, at)
		problems = append(problems, invalid...)
		places = append(places, place{selector, entry.Order})
	}
	return places, problems
}

// orderOf returns the order of a pod: that of the first entry that selects it, or 0.
func (f filters) orderOf(pod *corev1.Pod) int32 {
	for _, place := range f.order {
		if place.selector.Matches(labels.Set(pod.Labels)) {
			return place.order
		}
	}
	return 0
}

// hold defers pods of a higher order than the lowest that must still leave. It depends only on the pods of the node, so every run of the drain defers
// the same ones.
func hold(decisions []Decision) {
	lowest, found := int32(0), false
	for _, decision := range decisions {
		if decision.mustLeave() && (!found || decision.Order < lowest) {
			lowest, found = decision.Order, true
		}
	}
	for i := range decisions {
		if decisions[i].mustLeave() && decisions[i].Order > lowest {
			decisions[i].held = ReasonPodOrder
		}
	}
}

func (d Decision) orderMessage() string {
	return fmt.Sprintf("its order is %d: it is evicted after all pods of lower orders have left", d.Order)
}
