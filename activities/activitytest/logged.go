package activitytest

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
)

// Logged runs an activity and returns the lines that it logged.
func Logged(t *testing.T, step, in any) string {
	t.Helper()
	var lines bytes.Buffer
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	environment := suite.NewTestActivityEnvironment()
	environment.RegisterActivity(step)
	_, err := environment.ExecuteActivity(step, in)
	require.NoError(t, err)
	return lines.String()
}
