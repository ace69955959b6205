package statuspage

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// agentAt connects an MCP client to a server.
func agentAt(t *testing.T, address string) *mcp.ClientSession {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: address + "/mcp"}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func toolsOf(t *testing.T, session *mcp.ClientSession) []string {
	t.Helper()
	tools, err := session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	return names
}

func (s *stage) testMCP(t *testing.T) {
	session := agentAt(t, s.url)
	require.ElementsMatch(t, []string{"list_components", "list_maintenances", "list_incidents", "get_platform_status", "list_upgrades", "explain_wait"}, toolsOf(t, session))

	call := func(tool string, arguments map[string]any) (*mcp.CallToolResult, string) {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
		require.NoError(t, err)
		text, err := json.Marshal(result.Content)
		require.NoError(t, err)
		return result, string(text)
	}
	for tool, texts := range map[string]string{
		"list_components":     "Build farm",
		"list_maintenances":   "Database upgrade",
		"list_incidents":      "Names do not resolve",
		"get_platform_status": "Major outage",
		"list_upgrades":       "november",
	} {
		result, text := call(tool, map[string]any{})
		require.False(t, result.IsError, text)
		require.Contains(t, text, texts)
	}
	_, text := call("explain_wait", map[string]any{"cluster": "spoke-2"})
	require.Contains(t, text, "budget shop/web allows 0 of 3")
	require.Contains(t, text, "PodDisruptionBudget shop/web: needs 3 healthy")
	result, text := call("explain_wait", map[string]any{"upgrade": "prod/december"})
	require.True(t, result.IsError)
	require.Contains(t, text, "not found")
	result, _ = call("list_maintenances", map[string]any{"phase": "soon"})
	require.True(t, result.IsError)
}

func TestTheMCPServerReportsUnreadWorkflows(t *testing.T) {
	s, web := shown(t, unreadFleet())
	_, _, body := get(t, web.URL)
	require.Contains(t, body, `<span>Cannot read its status since <time datetime="2026-11-21T12:00:00Z" data-as="moment">`, "the page reports it too")
	status, err := mcpTools{s}.platformStatus(noInput{})
	require.NoError(t, err)
	require.Equal(t, []string{
		"rollout prod/november: not read yet", "node worker-3 of cluster spoke-2: Cannot read its status since 2026-11-21T12:00:00Z", "7 more rollouts", "8 more nodes",
	}, status.Unread)
	all, err := mcpTools{s}.explainWait(waitInput{})
	require.NoError(t, err)
	require.Equal(t, status.Unread, all.Unread)
	one, err := mcpTools{s}.explainWait(waitInput{Upgrade: "prod/november"})
	require.NoError(t, err)
	require.Equal(t, []string{"rollout prod/november: not read yet"}, one.Unread)
}

func TestAgentsGetTextOfOthersVisibleAndLimited(t *testing.T) {
	view := fleet()
	node := worker3()
	node.Status.Wait.Message = "free \x1b[8mhidden\u202e " + strings.Repeat("x", 20_000)
	node.Status.Wait.Blockers[0].Message = node.Status.Wait.Message
	view.Nodes = []Node{node}
	s, _ := shown(t, view)
	answer, err := mcpTools{s}.explainWait(waitInput{Node: "worker-3"})
	require.NoError(t, err)
	require.Len(t, answer.Waits, 1)
	for _, text := range append(answer.Waits[0].Blockers, answer.Waits[0].Message) {
		require.LessOrEqual(t, len(text), quotedLimit)
		require.Contains(t, text, "\uFFFD[8mhidden\uFFFD")
	}
}
