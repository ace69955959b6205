package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFrequentChangesAreCheckedLessOften(t *testing.T) {
	require.Zero(t, AwaitStaleInput{}.pause())
	var total time.Duration
	for changes := range 1000 {
		total += AwaitStaleInput{Changes: changes}.pause()
	}
	require.Equal(t, 2*time.Second, AwaitStaleInput{Changes: 1}.pause())
	require.Greater(t, total, 3*24*time.Hour, "a thousand changes take days")
}
