package windows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/notify"
	"drydock.dev/drydock/internal/windows"
)

func TestAnEmailAboutAWindowHasItsEventAndItsTemplate(t *testing.T) {
	s := night()
	s.Title = "Night"
	s.Notify = []drydockv1.WindowNotification{
		{URL: "mailto:ann@example.com"},
		{URL: "mailto:bob@example.com", Template: &drydockv1.NotificationTemplate{
			Title: "{{ .Title }}: {{ .Type }}{{ with .Lead }} in {{ . }}{{ end }}",
			Body:  "{{ with .Start }}from {{ .Format `15:04` }}{{ end }}{{ with .End }} to {{ .In `Europe/Berlin` }}{{ end }}{{ with .By }}by {{ . }}{{ end }}",
		}},
	}
	start := time.Date(2026, 12, 1, 22, 0, 0, 0, time.UTC)
	texts := func(e windows.Event) []notify.Text {
		var texts []notify.Text
		for _, notice := range windows.Notices("prod/night", s, e) {
			texts = append(texts, notice.Text())
		}
		return texts
	}
	require.Equal(t, []notify.Text{
		{Title: "window prod/night: opens soon", Body: "opens at ten"},
		{Title: "Night: upcoming in 1h", Body: "from 22:00 to 2026-12-02T03:00:00+01:00"},
	}, texts(windows.Event{
		Kind: windows.EventUpcoming, At: start.Add(-time.Hour), Lead: "1h", Message: "opens at ten", Opening: &windows.Opening{Start: start, End: start.Add(4 * time.Hour)},
	}))
	require.Equal(t, []notify.Text{{Title: "window prod/night: overridden", Body: "open"}, {Title: "Night: overridden", Body: "by ann"}},
		texts(windows.Event{Kind: windows.EventOverridden, At: start, By: "ann", Message: "open"}))
}
