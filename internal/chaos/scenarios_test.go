package chaos

import (
	"fmt"
	"slices"
	"testing"
)

// scenarios are all stories of harm, each on its own.
func scenarios() []scenario {
	return slices.Concat(workerDeaths(), outages())
}

func TestWhateverGoesWrongMaintenanceComesToItsRightEnd(t *testing.T) {
	for i, scenario := range scenarios() {
		if !scenario.short {
			continue
		}
		t.Run(scenario.name, func(t *testing.T) {
			s := newScene(t, fmt.Sprintf("s%d", i), 1)
			scenario.run(t, s)
			s.finish(t)
		})
	}
}
