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

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// webhookSecret is what the worker of the stage signs notices with.
const webhookSecret = "s3cret"

// noticeReceiver is a webhook that has trouble with the first notice of each kind.
type noticeReceiver struct {
	*httptest.Server
	mu sync.Mutex
	// tried and taken are how many notices of a kind came, and how many of them it took.
	tried, taken map[windows.EventKind]int
}

func receiveNotices(t *testing.T) *noticeReceiver {
	t.Helper()
	r := &noticeReceiver{tried: map[windows.EventKind]int{}, taken: map[windows.EventKind]int{}}
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
		r.taken[body.Type]++
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *noticeReceiver) took(kind windows.EventKind) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken[kind]
}

func (r *noticeReceiver) awaits(t *testing.T, kind windows.EventKind) {
	t.Helper()
	require.Eventually(t, func() bool { return r.took(kind) > 0 }, time.Minute, 20*time.Millisecond, "no word that it %s", kind)
}

// sendsWordOnce: window prod/told opens, and prod/foretold does in half an hour. They are terminated, and defined anew while the first is open.
func (s *stage) sendsWordOnce(t *testing.T) {
	r := receiveNotices(t)
	now := time.Now().UTC()
	told := noticed(t, "told", now.Add(2*time.Second), r.URL, "")
	foretold := noticed(t, "foretold", now.Add(30*time.Minute), r.URL, "leads: [1h]")
	succeeds(t, "window", "create", "-f", told)
	succeeds(t, "window", "create", "-f", foretold)
	r.awaits(t, windows.EventUpcoming)
	r.awaits(t, windows.EventStarted)

	for name, window := range map[string]string{"told": told, "foretold": foretold} {
		require.NoError(t, s.client.TerminateWorkflow(t.Context(), temporal.MaintenanceWindowID("prod", name), "", "by mistake"))
		succeeds(t, "window", "create", "-f", window)
	}
	becomes(t, func(status windows.Status) bool { return status.Phase == windows.PhaseOpen }, "window", "status", "prod/told")
	succeeds(t, "window", "end", "prod/told")
	r.awaits(t, windows.EventCut)
	require.Equal(t, 1, r.took(windows.EventStarted), "it was told before")
	require.Equal(t, 1, r.took(windows.EventUpcoming), "it was told before")
}

// noticed is the file of a window that opens once and says so to the URL.
func noticed(t *testing.T, name string, opens time.Time, url, leads string) string {
	t.Helper()
	return file(t, name+".yaml", fmt.Sprintf(`
apiVersion: drydock.dev/v1alpha1
kind: MaintenanceWindow
metadata: {name: %s, namespace: prod}
spec: {timeZone: UTC, recurrence: "RDATE:%s", duration: 1h, notify: [{url: %q, %s}]}
`, name, opens.Format("20060102T150405Z"), url, leads))
}
