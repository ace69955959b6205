package notify_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/notify"
)

func render(t *testing.T, title, body string, fact notify.Fact) notify.Text {
	t.Helper()
	receiver := drydockv1.Notification{URL: "mailto:ann@example.com", Template: &drydockv1.NotificationTemplate{Title: title, Body: body}}
	require.Empty(t, notify.CheckReceivers(field.NewPath("spec", "notify"), []drydockv1.Notification{receiver}, fact.Kind))
	return notify.To(receiver, "id", fact).Text()
}

func TestATemplateHasTheDataOfTheFact(t *testing.T) {
	text := render(t, "[{{ .Event }}] {{ .Kind }} {{ .Name }}", `{{ if .Reason }}{{ .Reason }}: {{ end }}{{ .Message }}, since {{ .Time }}, {{ (.Time.In "Europe/Berlin").Format "15:04 MST" }}`, blocked())
	require.Equal(t, notify.Text{
		Title: "[Blocked] rollout prod/november", Body: "DisruptionBudget: shop/web allows 0 of <3>, since 2026-12-01T22:00:00Z, 23:00 CET",
	}, text)
}

func TestWhatATemplateOmitsIsTheDefault(t *testing.T) {
	require.Equal(t, notify.Text{Title: "rollout prod/november: is blocked (DisruptionBudget)", Body: "shop/web allows 0 of <3>"}, render(t, "", "", blocked()))
	require.Equal(t, notify.Text{Title: "a", Body: "shop/web allows 0 of <3>"}, render(t, "a", "", blocked()))
	require.Equal(t, notify.Text{Title: "a"}, render(t, "a", "{{/* nothing */}}", blocked()))
}

func TestATitleIsOneLine(t *testing.T) {
	fact := blocked()
	fact.Name, fact.Message = "prod/x\r\nBcc: eve@example.com", "one\r\n\r\ntwo\x00\u2028three"
	require.Equal(t, "rollout prod/x Bcc: eve@example.com: is blocked (DisruptionBudget)", render(t, "", "", fact).Title)
	require.Equal(t, "a one two three", render(t, "a\n{{ .Message }}\n", "", fact).Title)
}

func TestTheTextOfATemplateIsCut(t *testing.T) {
	fact := blocked()
	fact.Message = strings.Repeat("ü", 40<<10)
	text := render(t, "{{ .Message }}", "{{ .Message }}{{ .Message }}", fact)
	require.Equal(t, notify.Text{Title: strings.Repeat("ü", 250), Body: strings.Repeat("ü", 8<<10)}, text)
}

func TestATemplateThatFailsGivesTheDefaultAndTheError(t *testing.T) {
	receiver := drydockv1.Notification{Template: &drydockv1.NotificationTemplate{Title: "a", Body: "{{ slice .Message 0 1000 }}"}}
	text := notify.To(receiver, "id", blocked()).Text()
	require.Equal(t, "rollout prod/november: is blocked (DisruptionBudget)", text.Title)
	require.Contains(t, text.Body, "shop/web allows 0 of <3>\n\nthe template of this notification fails: ")
	require.Contains(t, text.Body, "slice")
}

func TestInvalidTemplatesAreRefused(t *testing.T) {
	for template, says := range map[string]string{
		"{{ .Message":   "unclosed action",
		"{{ .Mesage }}": "can't evaluate field Mesage",
		"{{ if eq .Event `Held` }}{{ .Until }}{{ end }}":                                  "can't evaluate field Until",
		"{{ if not .Reason }}{{ slice .Reason 1 }}{{ end }}":                              "out of range",
		"{{ range 1000000000000 }}{{ end }}":                                              "range is not allowed",
		"{{ if true }}{{ else }}{{ with .Name }}{{ range 3 }}{{ end }}{{ end }}{{ end }}": "range is not allowed",
		"{{ define `a` }}{{ template `a` }}{{ template `a` }}{{ end }}{{ template `a` }}": "define and block are not allowed",
		"{{ block `a` . }}{{ end }}":                                                      "define and block are not allowed",
		"{{ template `template` . }}":                                                     "template is not allowed",
		"{{ printf `%1000000d` 1 }}":                                                      `function "printf" not defined`,
		"{{ html .Message }}":                                                             `function "html" not defined`,
		"{{ call .Time.String }}":                                                         `function "call" not defined`,
		"{{ .Time.Format `" + strings.Repeat("2", 101) + "` }}":                           "at most 100 characters",
		"{{ .Time.In `Mars/Olympus` }}":                                                   "unknown time zone",
	} {
		receivers := []drydockv1.Notification{{URL: "https://a"}, {URL: "https://a", Format: drydockv1.FormatSlack, Template: &drydockv1.NotificationTemplate{Body: template}}}
		invalid := notify.CheckReceivers(field.NewPath("spec", "notify"), receivers, "rollout")
		require.Len(t, invalid, 1, template)
		require.Equal(t, "spec.notify[1].template.body", invalid[0].Field)
		require.Contains(t, invalid[0].Detail, says, template)
	}
}

func TestATemplateForSlackMayHaveMarkup(t *testing.T) {
	receiver := drydockv1.Notification{
		URL: "https://chat", Format: drydockv1.FormatSlack, Template: &drydockv1.NotificationTemplate{Title: "<!here> *{{ .Name }}*", Body: "{{ .Message }}"},
	}
	_, body, err := notify.To(receiver, "id", blocked()).Payload()
	require.NoError(t, err)
	require.JSONEq(t, `{"text":"<!here> *prod/november*\nshop/web allows 0 of &lt;3&gt;"}`, string(body))
}
