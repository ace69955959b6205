package chaos

import (
	"testing"
)

// random is the scenario that leaves everything to chance.
func random() scenario {
	all := scenarios()
	return scenario{name: "random", run: func(t *testing.T, s *scene) {
		chosen := all[s.rand.IntN(len(all))]
		t.Logf("%s", chosen.name)
		chosen.run(t, s)
	}}
}
