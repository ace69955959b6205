package chaos

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a run plays is said by its environment; see docs/contributing/testing.md.
const (
	// minutesVariable asks for all scenarios, and for random ones until that many minutes are over.
	minutesVariable = "CHAOS_MINUTES"
	// seedVariable asks for the random scenario of that seed, and nothing else.
	seedVariable = "CHAOS_SEED"
)

// systematicSeed is that of scenarios which are not random: they are the same in every run.
const systematicSeed = 1

func TestMaintenanceRecoversFromFaults(t *testing.T) {
	playAll(t)
	theStage.requireSoundEntities(t)
}

// playAll plays what the environment asks for.
func playAll(t *testing.T) {
	t.Helper()
	if os.Getenv(seedVariable) != "" {
		playRandom(t, uint64(number(t, seedVariable)))
		return
	}
	began := time.Now()
	long := os.Getenv(minutesVariable) != ""
	for i, scenario := range scenarios() {
		if long || scenario.short {
			t.Run(scenario.name, func(t *testing.T) { play(t, scenario, fmt.Sprintf("s%d", i), systematicSeed) })
		}
	}
	if !long {
		return
	}
	budget := time.Duration(number(t, minutesVariable)) * time.Minute
	for seed := uint64(began.Unix()); time.Since(began) < budget && !t.Failed(); seed++ {
		playRandom(t, seed)
	}
}

func number(t *testing.T, variable string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(os.Getenv(variable), 10, 64)
	require.NoError(t, err, "%s must be a number", variable)
	return n
}

// play plays a scenario from its beginning to its judgement. What it makes is named after it.
func play(t *testing.T, scenario scenario, name string, seed uint64) {
	t.Helper()
	s := newScene(t, name, seed)
	scenario.run(t, s)
	s.finish(t)
}

// playRandom plays what the seed makes of chance: which harm, to a rollout of which shape, in which moment.
func playRandom(t *testing.T, seed uint64) {
	t.Helper()
	again := fmt.Sprintf("make chaos SEED=%d", seed)
	t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
		fmt.Fprintf(os.Stderr, "seed %d; again with: %s\n", seed, again)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("seed %d failed; again with: %s", seed, again)
			}
		})
		play(t, random(seed), fmt.Sprintf("r%d", seed), seed)
	})
}
