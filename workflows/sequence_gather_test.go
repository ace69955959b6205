package workflows

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities"
	"drydock.dev/drydock/internal/policies"
)

// gathers are how long news were gathered, watch after watch.
func (w *policyWorld) gathers() []time.Duration {
	var gathers []time.Duration
	for _, in := range w.inputsOf("AwaitCompliance") {
		gathers = append(gathers, in.(activities.AwaitComplianceInput).Gather)
	}
	return gathers
}

// Each of a hundred clusters complies at a time of its own with each of the policies: that is no reason to be late with the last of them.
func TestNewsThatWereToBeExpectedAreNotGatheredForLong(t *testing.T) {
	var clusters []string
	takes := map[string]time.Duration{}
	for i := range watchedTogether {
		clusters = append(clusters, fmt.Sprintf("c%03d", i))
		takes[clusters[i]] = time.Duration(i+1) * time.Second
	}
	w := newPolicyWorld(t, clusters)
	w.takes = func(cluster string, _ int) time.Duration { return takes[cluster] }
	w.run()
	requireResult[groupStatus](w.world)
	gathers := w.gathers()
	require.Greater(t, len(gathers), watchedTogether)
	require.Equal(t, policies.Gather(watchedTogether, 0, 0), slices.Max(gathers))
}

// The server ends a run that is too long, and with it the rollout, with all that is enforced by then.
func TestNewsAreGatheredTheLongerTheMoreOfTheHistoryIsUsed(t *testing.T) {
	for name, use := range map[string]func(w *policyWorld){
		"by its events": func(w *policyWorld) { w.SetCurrentHistoryLength(mostEvents / 2) },
		"by its size":   func(w *policyWorld) { w.SetCurrentHistorySize(mostBytes / 2) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newPolicyWorld(t, []string{"c1"})
			use(w)
			w.run()
			requireResult[groupStatus](w.world)
			require.Equal(t, policies.Gather(1, 0, 0.5), slices.Max(w.gathers()))
		})
	}
}
