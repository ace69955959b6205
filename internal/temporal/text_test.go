package temporal

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATextIsCutAtACharacterBoundary(t *testing.T) {
	require.Equal(t, "short", Cut("short", 10))
	require.Equal(t, "abcdefg...", Cut("abcdefghijk", 10))
	require.Equal(t, "abcdef...", Cut("abcdefü hijk", 10), "no character is cut in two")
}
