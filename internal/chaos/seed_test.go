package chaos

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// Environment variables select the scenarios; see docs/contributing/testing.md.
const (
	// minutesVariable selects all scenarios, then random ones until that many minutes are over.
	minutesVariable = "CHAOS_MINUTES"
	// seedVariable selects only the random scenario of that seed.
	seedVariable = "CHAOS_SEED"
)

// systematicSeed is the seed of scenarios that are not random.
const systematicSeed = 1

func TestMaintenanceRecoversFromFaults(t *testing.T) {
	devstacktest.NeedServers(t)
	runScenarios(t)
	useFleet(t).requireEntityInvariants(t)
}

// runScenarios runs the scenarios that the environment selects.
func runScenarios(t *testing.T) {
	t.Helper()
	if os.Getenv(seedVariable) != "" {
		runRandom(t, uint64(parseNumber(t, seedVariable)))
		return
	}
	began := time.Now()
	long := os.Getenv(minutesVariable) != ""
	for i, scenario := range scenarios() {
		if long || scenario.short {
			t.Run(scenario.name, func(t *testing.T) { runScenario(t, scenario, fmt.Sprintf("s%d", i), systematicSeed) })
		}
	}
	if !long {
		return
	}
	budget := time.Duration(parseNumber(t, minutesVariable)) * time.Minute
	for seed := uint64(began.Unix()); time.Since(began) < budget && !t.Failed(); seed++ {
		runRandom(t, seed)
	}
}

func parseNumber(t *testing.T, variable string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(os.Getenv(variable), 10, 64)
	require.NoError(t, err, "%s must be a number", variable)
	return n
}

// runScenario runs a scenario and checks it. name is the prefix of its objects.
func runScenario(t *testing.T, scenario scenario, name string, seed uint64) {
	t.Helper()
	s := startScenario(t, name, seed)
	s.byObject = scenario.byObject
	scenario.run(t, s)
	s.finish(t)
}

// runRandom runs the random scenario of a seed: its faults, the shape of its rollout, and the moments of the faults.
func runRandom(t *testing.T, seed uint64) {
	t.Helper()
	command := fmt.Sprintf("make chaos SEED=%d", seed)
	t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
		fmt.Fprintf(os.Stderr, "seed %d; repeat with: %s\n", seed, command)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("seed %d failed; repeat with: %s", seed, command)
			}
		})
		runScenario(t, random(seed), fmt.Sprintf("r%d", seed), seed)
	})
}
