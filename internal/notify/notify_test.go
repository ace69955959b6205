package notify_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/notify"
)

var at = time.Date(2026, 12, 1, 22, 0, 0, 0, time.UTC)

func blocked() notify.Fact {
	return notify.Fact{Event: drydockv1.EventBlocked, Kind: "rollout", Name: "prod/november", Reason: "DisruptionBudget", Message: "shop/web allows 0 of <3>", At: at}
}

func payload(t *testing.T, format drydockv1.NotificationFormat, fact notify.Fact) (string, string) {
	t.Helper()
	notice := notify.To(drydockv1.Notification{URL: "https://receiver/s3cret", Format: format}, "rollouts/prod/november/run/3", fact)
	mediaType, body, err := notice.Payload()
	require.NoError(t, err)
	require.NotContains(t, notice.String()+notice.ID+string(body), "s3cret")
	return mediaType, string(body)
}

func TestANotificationIsACloudEventUnlessAnotherFormatIsWanted(t *testing.T) {
	mediaType, body := payload(t, "", blocked())
	require.Equal(t, "application/cloudevents+json", mediaType)
	require.JSONEq(t, `{"specversion":"1.0","id":"rollouts/prod/november/run/3/`+notify.Short("https://receiver/s3cret")+`","source":"/rollouts/prod/november",
		"type":"dev.drydock.rollout.blocked","subject":"prod/november","time":"2026-12-01T22:00:00Z","datacontenttype":"application/json",
		"data":{"event":"Blocked","kind":"rollout","name":"prod/november","reason":"DisruptionBudget","message":"shop/web allows 0 of <3>","time":"2026-12-01T22:00:00Z"}}`, body)
}

func TestAMessageForSlackHasNoMarkup(t *testing.T) {
	mediaType, body := payload(t, drydockv1.FormatSlack, blocked())
	require.Equal(t, "application/json", mediaType)
	var message map[string]string
	require.NoError(t, json.Unmarshal([]byte(body), &message))
	require.Equal(t, map[string]string{"text": "rollout prod/november: is blocked (DisruptionBudget)\nshop/web allows 0 of &lt;3&gt;"}, message)
}

func TestAnAlertEndsWhenItsStateEnds(t *testing.T) {
	_, firing := payload(t, drydockv1.FormatAlertmanager, blocked())
	require.JSONEq(t, `[{"labels":{"alertname":"DrydockRolloutBlocked","rollout":"prod/november","severity":"warning","service":"drydock"},
		"annotations":{"summary":"rollout prod/november: is blocked (DisruptionBudget): shop/web allows 0 of <3>","reason":"DisruptionBudget","description":"shop/web allows 0 of <3>"},
		"startsAt":"2026-12-01T22:00:00Z","endsAt":"2026-12-02T22:00:00Z"}]`, firing)
	over := blocked()
	over.ResolvedAt = new(at.Add(time.Hour))
	_, resolved := payload(t, drydockv1.FormatAlertmanager, over)
	require.Contains(t, resolved, `"endsAt":"2026-12-01T23:00:00Z"`)
}

func TestAReceiverWantsAllEventsUnlessItNamesSome(t *testing.T) {
	require.True(t, notify.Wants(drydockv1.Notification{}, drydockv1.EventStarted))
	failures := drydockv1.Notification{Events: []drydockv1.NotificationEvent{drydockv1.EventFailed}}
	require.True(t, notify.Wants(failures, drydockv1.EventFailed))
	require.False(t, notify.Wants(failures, drydockv1.EventStarted))
	require.Equal(t, 30*time.Minute, notify.BlockedAfter(failures))
	require.Equal(t, time.Hour, notify.BlockedAfter(drydockv1.Notification{BlockedAfter: "1h"}))
}
