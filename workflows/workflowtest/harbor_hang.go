package workflowtest

import (
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	harborworkflow "drydock.dev/drydock/workflows/harbor"
)

// Says requires after so long that a condition is so.
func (h *HarborWorld) Says(after time.Duration, kind goharborv1.ConditionType, status metav1.ConditionStatus) {
	h.RegisterDelayedCallback(func() {
		require.Equal(h.T, status, ConditionIn(StatusOf[harborworkflow.Status](h.World), kind).Status, "%s after %s", kind, after)
	}, after)
}
