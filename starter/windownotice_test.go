package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/allow"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// allowedOnStage allows all Jobs, and receivers of notices on loopback.
func allowedOnStage(t *testing.T) allow.List {
	return allow.List{Jobs: []allow.Job{{Images: []string{"*"}, Namespaces: []string{"*"}}}, Webhooks: []allow.Webhook{{Host: "127.0.0.1:*", SecretFile: file(t, "secret", "s3cret"), PrivateAddresses: true}}}
}

// noticeReceiver is a webhook that refuses the first notice of each kind.
type noticeReceiver struct {
	*httptest.Server
	mu sync.Mutex
	// tried counts the received notices of a kind, accepted those that were accepted.
	tried, accepted map[windows.EventKind]int
}

func receiveNotices(t *testing.T) *noticeReceiver {
	t.Helper()
	r := &noticeReceiver{tried: map[windows.EventKind]int{}, accepted: map[windows.EventKind]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var body windows.NoticeBody
		if json.NewDecoder(request.Body).Decode(&body) != nil || request.Header.Get("webhook-signature") == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.tried[body.Type]++; r.tried[body.Type] == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.accepted[body.Type]++
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *noticeReceiver) acceptedOf(kind windows.EventKind) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted[kind]
}

func (r *noticeReceiver) awaits(t *testing.T, kind windows.EventKind) {
	t.Helper()
	require.Eventually(t, func() bool { return r.acceptedOf(kind) > 0 }, patience, tick, "no notification %s", kind)
}

// notifiesOnce: window prod/open opens now, and prod/upcoming in half an hour. Both are terminated and defined again while the first is open.
func (s *stage) notifiesOnce(t *testing.T) {
	r := receiveNotices(t)
	now := time.Now().UTC()
	open := windowFile(t, "open", now.Add(2*time.Second), r.URL, "")
	upcoming := windowFile(t, "upcoming", now.Add(30*time.Minute), r.URL, "leads: [1h]")
	succeeds(t, "window", "create", "-f", open)
	succeeds(t, "window", "create", "-f", upcoming)
	r.awaits(t, windows.EventUpcoming)
	r.awaits(t, windows.EventStarted)

	for name, window := range map[string]string{"open": open, "upcoming": upcoming} {
		require.NoError(t, s.client.TerminateWorkflow(t.Context(), temporal.MaintenanceWindowID("prod", name), "", "by mistake"))
		succeeds(t, "window", "create", "-f", window)
	}
	awaitOutput(t, func(status windows.Status) bool { return status.Phase == windows.PhaseOpen }, "window", "status", "prod/open")
	succeeds(t, "window", "end", "prod/open")
	r.awaits(t, windows.EventCut)
	require.Equal(t, 1, r.acceptedOf(windows.EventStarted), "the notification was sent before")
	require.Equal(t, 1, r.acceptedOf(windows.EventUpcoming), "the notification was sent before")
}

// windowFile returns the file of a window that opens once and notifies the URL.
func windowFile(t *testing.T, name string, opens time.Time, url, leads string) string {
	t.Helper()
	return file(t, name+".yaml", fmt.Sprintf(`
apiVersion: drydock.dev/v1alpha1
kind: MaintenanceWindow
metadata: {name: %s, namespace: prod}
spec: {timeZone: UTC, recurrence: "RDATE:%s", duration: 1h, notify: [{url: %q, %s}]}
`, name, opens.Format("20060102T150405Z"), url, leads))
}
