package activities

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// receiver is a webhook that answers with a status, and remembers the last request.
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

func noticeTo(url string) windows.Notice {
	return windows.Notice{ID: "prod/night/20261201T220000Z/started/abcd", URL: url, Body: windows.NoticeBody{Type: windows.EventStarted, Window: "prod/night", Message: "open"}}
}

func TestANoticeIsSignedWithTheSharedSecret(t *testing.T) {
	r := newReceiver(t, http.StatusNoContent)
	require.NoError(t, (&Webhooks{Secret: []byte("s3cret")}).SendNotice(t.Context(), noticeTo(r.URL)))
	require.Equal(t, "prod/night/20261201T220000Z/started/abcd", r.header.Get("webhook-id"))
	signature := hmac.New(sha256.New, []byte("s3cret"))
	signature.Write([]byte(r.header.Get("webhook-id") + "." + r.header.Get("webhook-timestamp") + "." + string(r.body)))
	require.Equal(t, "v1,"+base64.StdEncoding.EncodeToString(signature.Sum(nil)), r.header.Get("webhook-signature"))
	var body windows.NoticeBody
	require.NoError(t, json.Unmarshal(r.body, &body))
	require.Equal(t, windows.EventStarted, body.Type)
}

func TestANoticeThatDidNotArriveIsTriedAgain(t *testing.T) {
	gone := newReceiver(t, http.StatusOK)
	gone.Close()
	for name, tt := range map[string]struct {
		url, secret, says string
	}{
		"because the receiver has trouble":      {newReceiver(t, http.StatusBadGateway).URL, "s", "answers 502 Bad Gateway"},
		"because it sends us elsewhere":         {newReceiver(t, http.StatusTemporaryRedirect).URL, "s", "answers 307 Temporary Redirect"},
		"because nobody listens":                {gone.URL + "/token", "s", "connection refused"},
		"because there is no secret to sign it": {newReceiver(t, http.StatusOK).URL, "", "--webhook-secret-file"},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&Webhooks{Secret: []byte(tt.secret)}).SendNotice(t.Context(), noticeTo(tt.url))
			require.ErrorContains(t, err, tt.says)
			require.NotContains(t, err.Error(), "/token", "a URL may hold a secret")
			require.False(t, temporal.Final(err))
		})
	}
}

func TestACalendarIsForeseenOrRefused(t *testing.T) {
	object := drydockv1.MaintenanceWindow{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "night"}}
	object.Spec.TimeZone = "Europe/Berlin"
	object.Spec.Recurrence, object.Spec.Duration = "FREQ=DAILY;BYHOUR=22", "4h"
	from := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	outlook, err := (&Windows{}).ForeseeWindow(t.Context(), ForeseeWindowInput{Object: object, From: from})
	require.NoError(t, err)
	require.Equal(t, time.Date(2026, 12, 1, 21, 0, 0, 0, time.UTC), outlook.Openings[0].Start.UTC())

	object.Spec.TimeZone = "Mars/Olympus"
	_, err = (&Windows{}).ForeseeWindow(t.Context(), ForeseeWindowInput{Object: object, From: from})
	require.ErrorContains(t, err, "spec.timeZone")
	require.True(t, temporal.Final(err))
}
