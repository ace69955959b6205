package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/kit/kittest"
)

// removable is a set of items that supports only their removal.
type removable struct {
	items
	removed func()
}

func (r removable) CleanUp(workflow.Context, kit.Retrier) error {
	r.removed()
	return nil
}

func (removable) Count() int { return 1 }

// simpleRollout is a rollout with only a status and a retrier.
type simpleRollout struct {
	Rollout
	status *ranv1.ClusterGroupUpgradeStatus
}

func (r simpleRollout) Status() *ranv1.ClusterGroupUpgradeStatus { return r.status }

func (r simpleRollout) Retrier() kit.Retrier {
	return kit.HubRetrier(nil)
}

// A rollout is cancelled during an attempt to prepare it, which continues. It would create removed objects again.
func TestNothingIsRemovedDuringTheAttemptToCreateIt(t *testing.T) {
	for name, end := range map[string]func(s *sequence, ctx workflow.Context){
		"at the end":          func(s *sequence, ctx workflow.Context) { s.CleanUp(ctx, false) },
		"before the next run": func(s *sequence, ctx workflow.Context) { s.Settle(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			preparing := kittest.Run(t, func(ctx workflow.Context) (bool, error) {
				began := metav1.NewTime(workflow.Now(ctx))
				g := simpleRollout{status: &ranv1.ClusterGroupUpgradeStatus{Status: ranv1.RunStatus{CurrentBatchStartedAt: &began}}}
				s := newSequence(g, nil)
				s.items = removable{removed: func() { require.False(t, s.preparing) }}
				s.preparing = true
				workflow.Go(ctx, func(ctx workflow.Context) {
					_ = workflow.Sleep(ctx, kit.EffectTimeout)
					s.preparing = false
				})
				end(s, ctx)
				return s.preparing, nil
			})
			require.False(t, preparing)
		})
	}
}
