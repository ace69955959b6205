package temporal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

func TestATextIsCutAtACharacterBoundary(t *testing.T) {
	require.Equal(t, "short", Cut("short", 10))
	require.Equal(t, "abcdefg...", Cut("abcdefghijk", 10))
	require.Equal(t, "abcdef...", Cut("abcdefü hijk", 10), "no character is cut in two")
}

func TestMessagesThatOthersWriteAreShortened(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	wait := drydockv1.Wait{Reason: "R", Message: long, Blockers: []drydockv1.Blocker{{Name: "pod", Message: long}}}
	cut := CutWait(wait)
	require.Len(t, cut.Message, waitMessageLimit)
	require.Len(t, cut.Blockers[0].Message, waitMessageLimit)
	require.Equal(t, long, wait.Blockers[0].Message, "the caller's blockers stay as they are")

	err := Error(ErrJobFailed, long, nil, wait.Blockers...)
	require.Len(t, ErrorMessage(err), errorMessageLimit)
	require.Len(t, Blockers(err)[0].Message, waitMessageLimit)
}
