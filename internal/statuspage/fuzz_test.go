package statuspage

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/observe"
)

// FuzzPages shows texts that others wrote, on the page, to the API and to MCP, and reads requests of any client. No text becomes markup, and no request an
// internal error.
func FuzzPages(f *testing.F) {
	f.Add("/upgrades/a/b", "s:h,x:y", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"explain_wait","arguments":{"cluster":"c"}}}`, "<script>alert(1)</script>", int32(3))
	f.Add("/nodes/%2f/%00", ",:", `[]`, `"><img src=x onerror=1>`, int32(0))
	f.Add("events?page=%", "", `{"namespace":"a","name":"b"}`, "javascript:alert(1)\x1b[2J\xff", int32(100))
	f.Fuzz(func(t *testing.T, path, have, body, text string, n int32) {
		s, err := New(Options{Portal: "main", Log: discard(), WebUI: "http://ui.example"})
		require.NoError(t, err)
		text = strings.ToValidUTF8(text, "?") // Temporal and Kubernetes store no other
		wait := &drydockv1.Wait{Reason: text, Message: text, Blockers: []drydockv1.Blocker{{Kind: text, Name: text, Message: text}}}
		s.reader.publish(func(v *View) bool {
			var rollout ranv1.ClusterGroupUpgradeStatus
			rollout.Wait, rollout.Percentage, rollout.Notes = wait, max(n, 0), []string{text}
			rollout.Counts.Total, rollout.Counts.Complete = max(n, 0), max(n, 0)
			rollout.Clusters = []ranv1.ClusterStatus{{Name: text, Batch: n, Message: text, Reason: text, State: ranv1.ClusterState(text)}}
			rollout.RemediationPlan = [][]string{{text}}
			v.Upgrades = []Upgrade{{Row: observe.Row{Ref: observe.Ref{Namespace: "a", Name: "b", WorkflowID: text}, Execution: "Running"}, Status: rollout, Known: true}}
			var node maintenancev1.NodeMaintenanceStatus
			node.Wait, node.Notes, node.State = wait, []string{text}, maintenancev1.NodeState(text)
			node.Failure = &maintenancev1.Failure{Reason: text, Message: text}
			v.Nodes = []Node{{Row: observe.Row{Ref: observe.Ref{Cluster: "c", Name: text, WorkflowID: text}, Node: text, Execution: "Running"}, Status: node, Known: true}}
			return true
		})
		handler := s.Handler()
		answerTo := func(method, address, content string) *httptest.ResponseRecorder {
			request := httptest.NewRequest(method, "http://localhost"+address, strings.NewReader(content))
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Accept", "application/json, text/event-stream")
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			require.NotEqual(t, http.StatusInternalServerError, answer.Code, "%s %s: %s", method, address, answer.Body)
			return answer
		}
		for _, address := range []string{"/", "/upgrades/a/b"} {
			page := strings.ToLower(answerTo(http.MethodGet, address, "").Body.String())
			for _, markup := range []string{"<script>", "<img", `href="javascript:`} {
				require.NotContains(t, page, markup)
			}
		}
		view, _ := s.reader.View()
		_, _ = s.pages.page("/"+strings.TrimPrefix(path, "/"), view)
		sectionsHad(have)
		answerTo(http.MethodPost, "/mcp", body)
		if json.Valid([]byte(body)) {
			for _, method := range []string{"GetUpgrade", "ListNodes", "CreateMaintenance"} {
				answerTo(http.MethodPost, "/drydock.v1.StatusService/"+method, body)
			}
		}
	})
}
