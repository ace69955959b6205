package windows

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/allow"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// receiver is a webhook that answers with a status, and records the last request.
type receiver struct {
	*httptest.Server
	answer int
	header http.Header
	body   []byte
	calls  int
}

func newReceiver(t *testing.T, answer int) *receiver {
	r := &receiver{answer: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.calls++
		r.header = request.Header
		r.body, _ = io.ReadAll(request.Body)
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(r.answer)
	}))
	t.Cleanup(r.Close)
	return r
}

// receivers allows receivers on loopback that share a secret.
func receivers(t *testing.T, secret string) *Activities {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(secret), 0o600))
	return &Activities{Allowed: allow.List{Webhooks: []allow.Webhook{{Host: "127.0.0.1:*", SecretFile: file, PrivateAddresses: true}}}}
}

func noticeTo(url string) windows.Notice {
	return windows.Notice{ID: "prod/night/20261201T220000Z/started/abcd", URL: url, Body: windows.NoticeBody{Type: windows.EventStarted, Window: "prod/night", Message: "open"}}
}

func TestANotificationIsSignedWithTheSharedSecret(t *testing.T) {
	r := newReceiver(t, http.StatusNoContent)
	require.NoError(t, receivers(t, " s3cret\n").SendNotice(t.Context(), noticeTo(r.URL)))
	require.Equal(t, "prod/night/20261201T220000Z/started/abcd", r.header.Get("webhook-id"))
	signature := hmac.New(sha256.New, []byte("s3cret"))
	signature.Write([]byte(r.header.Get("webhook-id") + "." + r.header.Get("webhook-timestamp") + "." + string(r.body)))
	require.Equal(t, "v1,"+base64.StdEncoding.EncodeToString(signature.Sum(nil)), r.header.Get("webhook-signature"))
	var body windows.NoticeBody
	require.NoError(t, json.Unmarshal(r.body, &body))
	require.Equal(t, windows.EventStarted, body.Type)
}

func TestEachReceiverHasItsOwnCredentials(t *testing.T) {
	r := newReceiver(t, http.StatusNoContent)
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("t0ken\n"), 0o600))
	webhooks := receivers(t, "s3cret")
	webhooks.Allowed.Webhooks = append([]allow.Webhook{{Host: "127.0.0.1:*", Path: "/bearer", TokenFile: token, PrivateAddresses: true}}, webhooks.Allowed.Webhooks...)
	require.NoError(t, webhooks.SendNotice(t.Context(), noticeTo(r.URL+"/bearer/x")))
	require.Equal(t, "Bearer t0ken", r.header.Get("Authorization"))
	require.Empty(t, r.header.Get("webhook-signature"))
	require.NoError(t, webhooks.SendNotice(t.Context(), noticeTo(r.URL+"/other")))
	require.Empty(t, r.header.Get("Authorization"))
	require.NotEmpty(t, r.header.Get("webhook-signature"))

	require.NoError(t, os.WriteFile(token, []byte("renewed"), 0o600))
	require.NoError(t, webhooks.SendNotice(t.Context(), noticeTo(r.URL+"/bearer")))
	require.Equal(t, "Bearer renewed", r.header.Get("Authorization"))
}

func TestANameThatHasAPrivateAddressGetsNothing(t *testing.T) {
	r := newReceiver(t, http.StatusNoContent)
	webhooks := receivers(t, "s")
	webhooks.Allowed.Webhooks[0].Host, webhooks.Allowed.Webhooks[0].PrivateAddresses = "localhost:*", false
	err := webhooks.SendNotice(t.Context(), noticeTo(strings.Replace(r.URL, "http://127.0.0.1", "https://localhost", 1)))
	require.ErrorContains(t, err, "is not public")
	require.Zero(t, r.calls)
	require.False(t, temporal.Final(err))
}

func TestAFailedNotificationIsRetried(t *testing.T) {
	gone := newReceiver(t, http.StatusOK)
	gone.Close()
	for name, tt := range map[string]struct {
		url, secret, says string
	}{
		"the receiver fails":         {newReceiver(t, http.StatusBadGateway).URL, "s", "answers 502 Bad Gateway"},
		"the receiver redirects":     {newReceiver(t, http.StatusTemporaryRedirect).URL, "s", "answers 307 Temporary Redirect"},
		"the receiver is down":       {gone.URL + "/token", "s", "connection refused"},
		"there is no signing secret": {newReceiver(t, http.StatusOK).URL, " ", "the file is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			err := receivers(t, tt.secret).SendNotice(t.Context(), noticeTo(tt.url))
			require.ErrorContains(t, err, tt.says)
			require.NotContains(t, err.Error(), "/token", "a URL may hold a secret")
			require.False(t, temporal.Final(err))
		})
	}
}

// signalledWindow records the signal that starts it.
type signalledWindow struct {
	activitykit.Starter
	options client.StartWorkflowOptions
	signal  string
	payload any
	err     error
}

func (a *signalledWindow) SignalWithStartWorkflow(
	_ context.Context, id, signal string, payload any, options client.StartWorkflowOptions, workflow any, _ ...any,
) (client.WorkflowRun, error) {
	if id != options.ID || workflow != temporal.MaintenanceWindow {
		return nil, fmt.Errorf("%s is signalled, and %v of id %s started", id, workflow, options.ID)
	}
	a.options, a.signal, a.payload = options, signal, payload
	return nil, a.err
}

func TestASubscriptionStartsAnUndefinedWindow(t *testing.T) {
	window := &signalledWindow{}
	in := SubscribeToWindowInput{Window: "prod/night", Subscription: temporal.Subscription{WorkflowID: "cgu/ops/june", FirstRunID: "1"}}
	require.NoError(t, (&Activities{Temporal: window}).SubscribeToWindow(t.Context(), in))
	require.Equal(t, "window/prod/night", window.options.ID)
	require.Equal(t, enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING, window.options.WorkflowIDConflictPolicy)
	require.Equal(t, temporal.SignalSubscribeWindow, window.signal)
	require.Equal(t, in.Subscription, window.payload)

	window.err = errors.New("the server is down")
	err := (&Activities{Temporal: window}).SubscribeToWindow(t.Context(), in)
	require.EqualError(t, err, "subscribe to window prod/night: the server is down")
	require.False(t, temporal.Final(err), "it is retried")
}

// Otherwise it would block a worker forever.
func TestAnUnresponsiveReceiverTimesOut(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		_, _ = io.ReadAll(request.Body)
		<-request.Context().Done()
	}))
	t.Cleanup(silent.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := receivers(t, "s").SendNotice(ctx, noticeTo(silent.URL))
	require.ErrorContains(t, err, "notify the receiver on ")
	require.False(t, temporal.Final(err))
}

func TestAReceiverThatIsNotAllowedGetsNothing(t *testing.T) {
	err := receivers(t, "s").SendNotice(t.Context(), noticeTo("https://receiver:port/token"))
	require.ErrorContains(t, err, "the address is not a URL")
	require.NotContains(t, err.Error(), "token")
	err = receivers(t, "s").SendNotice(t.Context(), noticeTo("https://elsewhere.example.com/s3cret"))
	require.ErrorContains(t, err, "host elsewhere.example.com: not a receiver of allow.webhooks")
	require.NotContains(t, err.Error(), "s3cret")
	require.ErrorContains(t, receivers(t, "s").SendNotice(t.Context(), noticeTo("mailto:ann@example.com")), "allow.email of the worker's clusters file has no mail server")
}

func TestACalendarIsScheduledOrRefused(t *testing.T) {
	object := drydockv1.MaintenanceWindow{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "night"}}
	object.Spec.TimeZone = "Europe/Berlin"
	object.Spec.Recurrence, object.Spec.Duration = "FREQ=DAILY;BYHOUR=22", "4h"
	from := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	schedule, err := (&Activities{}).ReadCalendar(t.Context(), ReadCalendarInput{Object: object, From: from})
	require.NoError(t, err)
	require.Equal(t, time.Date(2026, 12, 1, 21, 0, 0, 0, time.UTC), schedule.Openings[0].Start.UTC())

	object.Spec.Notify = []drydockv1.WindowNotification{{URL: "https://receiver", Leads: []drydockv1.Duration{"99999h"}}, {URL: "mailto:ann@example.com"}}
	_, err = (&Activities{}).ReadCalendar(t.Context(), ReadCalendarInput{Object: object, From: from, Defining: true})
	require.ErrorContains(t, err, "spec.notify[0].leads[0]")
	require.ErrorContains(t, err, "spec.notify[0].url: Forbidden: host receiver: not a receiver of allow.webhooks")
	require.ErrorContains(t, err, "spec.notify[1].url: Forbidden: allow.email of the worker's clusters file has no mail server")
	require.True(t, temporal.Final(err))
	_, err = (&Activities{}).ReadCalendar(t.Context(), ReadCalendarInput{Object: object, From: from})
	require.NoError(t, err, "an existing window continues")

	object.Spec.TimeZone = "Mars/Olympus"
	_, err = (&Activities{}).ReadCalendar(t.Context(), ReadCalendarInput{Object: object, From: from})
	require.ErrorContains(t, err, "spec.timeZone")
	require.True(t, temporal.Final(err))

	object.Spec.TimeZone = "UTC"
	_, err = (&Activities{}).ReadCalendar(t.Context(), ReadCalendarInput{Object: object, From: time.Date(9001, 1, 1, 0, 0, 0, 0, time.UTC)})
	require.ErrorContains(t, err, "the year must be from 1970 to 9000")
	require.True(t, temporal.Final(err), "a retry cannot succeed")
}
