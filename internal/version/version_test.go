package version

import (
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestABuildHasTheCommitAndTheDate(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.0"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-11-20T12:00:00Z"}, {Key: "vcs.modified", Value: "true"},
	}}
	b := buildOf(info, "")
	b.Go = "go1.26.0"
	require.Equal(t, "0123456789abcdef", b.Commit)
	require.Equal(t, "v1.2.0 (commit 0123456789ab with changes, 2026-11-20T12:00:00Z, go1.26.0)", b.String())
	require.Equal(t, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), b.SourceDate())
	require.Equal(t, "v2.0.0", buildOf(info, "v2.0.0").Version, "that of the Makefile")

	unknown := buildOf(&debug.BuildInfo{}, "")
	require.Equal(t, "unknown", unknown.Version)
	require.Equal(t, time.Unix(0, 0).UTC(), unknown.SourceDate())
}
