package notifications

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/allow"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/notify"
	"drydock.dev/drydock/internal/temporal"
)

// onLoopback allows receivers on loopback that share a secret.
func onLoopback(t *testing.T) *Activities {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("s3cret"), 0o600))
	return &Activities{Allowed: allow.List{Webhooks: []allow.Webhook{{Host: "127.0.0.1:*", SecretFile: secret, PrivateAddresses: true}}}}
}

func noticeOf(url string, format drydockv1.NotificationFormat, fact notify.Fact) notify.Notice {
	return notify.To(drydockv1.Notification{URL: url, Format: format}, "rollouts/prod/november/run/3", fact)
}

func blocked() notify.Fact {
	return notify.Fact{
		Event: drydockv1.EventBlocked, Kind: "rollout", Name: "prod/november", Reason: "DisruptionBudget", Message: "shop/web allows 0 of 3", At: time.Now().Add(-time.Hour),
	}
}

func TestANotificationIsSignedAndNamesItsFormat(t *testing.T) {
	var header http.Header
	var body []byte
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		header = request.Header
		body, _ = io.ReadAll(request.Body)
	}))
	t.Cleanup(receiver.Close)
	notice := noticeOf(receiver.URL, "", blocked())
	require.NoError(t, onLoopback(t).SendNotification(t.Context(), notice))
	require.Equal(t, "application/cloudevents+json", header.Get("Content-Type"))
	require.Equal(t, notice.ID, header.Get("Webhook-Id"))
	require.NotEmpty(t, header.Get("Webhook-Signature"))
	var event map[string]any
	require.NoError(t, json.Unmarshal(body, &event))
	require.Equal(t, notice.ID, event["id"])
}

func TestAReceiverThatIsNotAllowedIsNotNotified(t *testing.T) {
	err := onLoopback(t).SendNotification(t.Context(), noticeOf("https://elsewhere.example.com/s3cret", "", blocked()))
	require.ErrorContains(t, err, "host elsewhere.example.com: not a receiver of allow.webhooks")
	require.NotContains(t, err.Error(), "s3cret")
	require.False(t, temporal.Final(err), "the clusters file may be changed")
}

// A real Alertmanager shows the alert until its state ends.
func TestAlertmanagerTakesAlertsAndTheirEnd(t *testing.T) {
	alertmanager := startAlertmanager(t)
	active := func() (labels []map[string]string) {
		response, err := http.Get(alertmanager + "/api/v2/alerts?active=true")
		if err != nil {
			return nil
		}
		defer response.Body.Close()
		var alerts []struct {
			Labels map[string]string `json:"labels"`
		}
		if json.NewDecoder(response.Body).Decode(&alerts) != nil {
			return nil
		}
		for _, alert := range alerts {
			labels = append(labels, alert.Labels)
		}
		return labels
	}
	activities, fact := onLoopback(t), blocked()
	notice := noticeOf(alertmanager+"/api/v2/alerts", drydockv1.FormatAlertmanager, fact)
	ctx := t.Context()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		assert.NoError(t, activities.SendNotification(ctx, notice)) // Alertmanager may still be starting
		assert.Equal(t, []map[string]string{{"alertname": "DrydockRolloutBlocked", "rollout": "prod/november", "severity": "warning", "service": "drydock"}}, active())
	}, time.Minute, 100*time.Millisecond)
	fact.ResolvedAt = new(time.Now())
	require.NoError(t, activities.SendNotification(t.Context(), noticeOf(notice.URL, notice.Format, fact)))
	require.Eventually(t, func() bool { return len(active()) == 0 }, time.Minute, 100*time.Millisecond)
}

// startAlertmanager starts an Alertmanager that tells nobody, and returns its URL.
func startAlertmanager(t *testing.T) string {
	t.Helper()
	devstacktest.NeedServers(t)
	program, err := exec.LookPath("prometheus-alertmanager")
	require.NoError(t, err, "apt-get install prometheus-alertmanager")
	directory := t.TempDir()
	config := filepath.Join(directory, "alertmanager.yml")
	require.NoError(t, os.WriteFile(config, []byte("route: {receiver: none}\nreceivers: [{name: none}]\n"), 0o600))
	server := exec.CommandContext(t.Context(), program, "--config.file="+config, "--storage.path="+directory, "--web.listen-address=127.0.0.1:0", "--cluster.listen-address=")
	log := &devstacktest.Buffer{}
	server.Stdout, server.Stderr = log, log
	require.NoError(t, server.Start())
	t.Cleanup(func() { _ = server.Wait() }) // t.Context has ended it
	listens := regexp.MustCompile(`"Listening on" address=(\S+)`)
	require.Eventually(t, func() bool { return listens.MatchString(log.String()) }, time.Minute, 10*time.Millisecond, "%s", log)
	return "http://" + listens.FindStringSubmatch(log.String())[1]
}
