package nodemaintenance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

// logLines is a logger that keeps its lines with the values of their keys.
type logLines []string

func (l *logLines) keep(message string, keyvals ...any) {
	line := message
	for i := 0; i+1 < len(keyvals); i += 2 {
		line += fmt.Sprintf(" %s=%v", keyvals[i], keyvals[i+1])
	}
	*l = append(*l, line)
}

func (l *logLines) Debug(message string, keyvals ...any) { l.keep(message, keyvals...) }
func (l *logLines) Info(message string, keyvals ...any)  { l.keep(message, keyvals...) }
func (l *logLines) Warn(message string, keyvals ...any)  { l.keep(message, keyvals...) }
func (l *logLines) Error(message string, keyvals ...any) { l.keep(message, keyvals...) }

// logOf runs a maintenance whose node has workload locks, and returns its log without the keys that every line must have.
func logOf(t *testing.T, in nodemaintenance.Input, keys string) []string {
	t.Helper()
	w := workflowtest.NewWorld(t)
	w.Locked = true
	var lines logLines
	w.RegisterAs("logged", func(ctx workflow.Context, in nodemaintenance.Input) (workflowtest.NodeStatus, error) {
		return nodemaintenance.RunWithLogger(ctx, in, &lines)
	})
	w.ExecuteWorkflow("logged", in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	var rest []string
	for _, line := range lines {
		require.Contains(t, line, keys)
		rest = append(rest, strings.Replace(line, keys, "", 1))
	}
	return rest
}

func TestAMaintenanceCanBeFollowedFromTheLog(t *testing.T) {
	require.Equal(t, []string{
		"Node maintenance changed state from= to=Pending",
		"Slot requested",
		"Slot granted",
		"Node maintenance changed state from=Pending to=Scheduled",
		"Workload locks requested answer=Requested clusterHeld=false",
		"Workload locks released of=n1",
		"Node maintenance changed state from=Scheduled to=Cordon",
		"Node cordoned cordonedByUs=true locks=false",
		"Attempt to cordon the node ended outcome=acquired",
		"Node maintenance changed state from=Cordon to=WaitForPodCompletion",
		"Wait for pods to finish ended remaining=0",
		"Node maintenance changed state from=WaitForPodCompletion to=Draining",
		"Drain attempt started attempt=1",
		"Drain attempt ended attempt=1 evicted=3 podsToEvict=3 blocked=0",
		"Node maintenance changed state from=Draining to=Ready",
		"Job changed state job=Started",
		"Job changed state job=Finished",
		"Requestor changed state of=ops.example.com state=Done message=its job is done",
		"Node maintenance changed state from=Ready to=HealthChecks",
		"Node maintenance changed state from=HealthChecks to=CleaningUp",
		"Cleanup step ended step=return n1",
		"Node returned to service leftCordoned=false",
		"Wait for active workload locks ended inactive=0",
		"Cleanup step ended step=withdraw the request for c1",
		"Slot released",
		"Node maintenance changed state from=CleaningUp to=Completed",
	}, logOf(t, workflowtest.WholeMaintenance(), " cluster=c1 node=n1 requestor=ops.example.com"))
}

func TestTheLogOfAMaintenanceNamesItsRollout(t *testing.T) {
	lines := logOf(t, workflowtest.OfRollout(), " rollout=ops/june")
	require.NotContains(t, lines, "Slot requested")
}
