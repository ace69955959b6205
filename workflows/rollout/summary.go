package rollout

import (
	"fmt"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// Summary is the summary of a rollout in the workflow list of the Web UI.
func Summary(object *ranv1.ClusterGroupUpgrade) string {
	strategy := object.Spec.RemediationStrategy
	switch n := len(strategy.Canaries); n {
	case 0:
		return fmt.Sprintf("%s, %s at once", object.Name, strategy.MaxConcurrency.String())
	case 1:
		return fmt.Sprintf("%s, 1 canary, then %s at once", object.Name, strategy.MaxConcurrency.String())
	default:
		return fmt.Sprintf("%s, %d canaries, then %s at once", object.Name, n, strategy.MaxConcurrency.String())
	}
}
