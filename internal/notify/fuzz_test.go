package notify_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/notify"
)

// No URL of a receiver makes the dialog with a mail server longer than its addresses.
func FuzzRecipients(f *testing.F) {
	for _, seed := range []string{"ann@example.com,bob@example.com", "a%2Bb@example.com", "ann@example.com%0d%0aBcc:eve@example.com", `"a b"@example.com`, "ann@[::1]", "a@b?c", "", ","} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		recipients, err := notify.Recipients("mailto:" + list)
		for _, recipient := range recipients {
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(recipient, "@"))
			require.False(t, strings.ContainsFunc(recipient, func(char rune) bool { return char <= ' ' || char > '~' || strings.ContainsRune(`<>()[],;:\"`, char) }), "%q", recipient)
		}
	})
}

// Each template ends, with a text of limited length.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{
		"[{{ .Event }}] {{ .Name }}", "{{ with $x := .Message }}{{ slice $x 1 2 | len }}{{ else if .Reason }}{{ end }}", "{{ (.Time.In `UTC`).Format `15:04` }}",
		"{{ range 3 }}{{ end }}", "{{ define `template` }}{{ template `template` }}{{ end }}", "{{- /* a */ -}}", "{{ and .A (index .B 1) }}", "{{ block `a` . }}{{ end }}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, template string) {
		receiver := drydockv1.Notification{URL: "mailto:ann@example.com", Template: &drydockv1.NotificationTemplate{Title: template, Body: template}}
		text := notify.To(receiver, "id", blocked()).Text()
		require.LessOrEqual(t, len(text.Title), 600)
		require.NotContains(t, text.Title, "\n")
		require.LessOrEqual(t, len(text.Body), 32<<10)
	})
}
