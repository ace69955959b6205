package devstack_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/devstack"
)

func TestAnIncompleteAuditEventOfAKilledAPIServerIsSkipped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	text := `{"verb":"get"}` + "\n" + `{"verb":"upd` + "\n" + `{"verb":"list"}` + "\n" + `{"verb":`
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	events, err := (&devstack.Cluster{AuditLogFile: path}).AuditEvents()
	require.NoError(t, err)
	require.Len(t, events, 2)
	require.Equal(t, "list", events[1].Verb)
}
