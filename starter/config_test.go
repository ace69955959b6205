package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// profiles is a configuration file of the temporal CLI.
const profiles = `
[profile.default]
address = "127.0.0.1:2"
[profile.prod]
address = "127.0.0.1:3"
namespace = "fleet"
api_key = "secret-key"
[profile.prod.tls]
disabled = true
[profile.prod.other]
kept = "as it is"
[profile.prod.drydock]
cluster = "spoke-1"
namespace = "ztp"
`

// withProfiles makes the file the configuration of the test, and returns its path.
func withProfiles(t *testing.T, text string) string {
	t.Helper()
	isolate(t)
	require.NoError(t, os.Unsetenv("TEMPORAL_ADDRESS"))
	path := file(t, "temporal.toml", text)
	t.Setenv("TEMPORAL_CONFIG_FILE", path)
	return path
}

func TestAContextIsUsedUnlessAFlagOrAVariableOverridesIt(t *testing.T) {
	withProfiles(t, profiles)
	server := func(args ...string) string {
		t.Helper()
		got := drydock(t, append([]string{"upgrade", "status", "june"}, args...)...)
		require.Equal(t, exitFailed, got.status)
		return got.stderr
	}
	require.Contains(t, server(), "temporal at 127.0.0.1:2 ", "the profile default")
	require.Equal(t, "context prod is the current one\n", succeeds(t, "config", "use-context", "prod"))
	require.Equal(t, "prod\n", succeeds(t, "config", "current-context"))
	require.Contains(t, server(), "temporal at 127.0.0.1:3 ")
	require.Contains(t, server("--address", "127.0.0.1:4"), "temporal at 127.0.0.1:4 ")
	require.Contains(t, server("--profile", "default"), "temporal at 127.0.0.1:2 ")
	t.Setenv("TEMPORAL_PROFILE", "default")
	require.Contains(t, server(), "temporal at 127.0.0.1:2 ")
}

func TestAContextHasTheDefaultsOfTheClusterAndTheNamespace(t *testing.T) {
	withProfiles(t, profiles)
	use := func(prepare func(*cli)) *cli {
		c := &cli{}
		prepare(c)
		require.NoError(t, c.useContext())
		return c
	}
	byDefault := use(func(*cli) {})
	require.Equal(t, "default", byDefault.objectNamespace())
	require.Empty(t, byDefault.cluster)
	prod := use(func(c *cli) { c.connection.Profile = "prod" })
	require.Equal(t, "spoke-1", prod.cluster)
	target, err := prod.rollout("june")
	require.NoError(t, err)
	require.Equal(t, "ztp/june", target.name)
	target, err = prod.rollout("test/june")
	require.NoError(t, err, "an explicit namespace does not contradict a default")
	require.Equal(t, "test/june", target.name)
	require.Equal(t, "spoke-2", use(func(c *cli) { c.connection.Profile, c.cluster = "prod", "spoke-2" }).cluster)
}

func TestAContextThatIsGoneIsNotReplacedByAnother(t *testing.T) {
	path := withProfiles(t, profiles)
	succeeds(t, "config", "use-context", "prod")
	require.NoError(t, os.WriteFile(path, []byte("[profile.default]\n"), 0o600))
	got := drydock(t, "hold", "--all")
	require.Equal(t, exitUsage, got.status)
	require.Equal(t, `error: the current context "prod" is not in `+path+": select one of default with `drydock config use-context` (see drydock hold --help)\n", got.stderr)
	require.Equal(t, exitUsage, drydock(t, "config", "use-context", "prod").status)
	succeeds(t, "config", "use-context", "default")
}

func TestAContextIsChangedWithoutTouchingTheRest(t *testing.T) {
	path := withProfiles(t, profiles)
	succeeds(t, "config", "set-context", "prod", "--temporal-namespace", "fleet-2", "--cluster", "")
	file, err := (&cli{}).loadContexts()
	require.NoError(t, err)
	prod := file.config.Profiles["prod"]
	require.Equal(t, "127.0.0.1:3", prod.Address)
	require.Equal(t, "fleet-2", prod.Namespace)
	require.Equal(t, "secret-key", prod.APIKey)
	require.True(t, prod.TLS.Disabled)
	require.Equal(t, contextSettings{Namespace: "ztp"}, file.settings("prod"))
	require.Equal(t, map[string]any{"kept": "as it is"}, file.others["prod"]["other"])
	require.Equal(t, "127.0.0.1:2", file.config.Profiles["default"].Address)

	succeeds(t, "config", "set-context", "lab", "--address", "127.0.0.1:5", "-n", "default")
	mode, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), mode.Mode().Perm(), "it may have credentials")
	left, err := filepath.Glob(path + "?*")
	require.NoError(t, err)
	require.Empty(t, left, "no temporary file is left")

	succeeds(t, "config", "use-context", "lab")
	require.Equal(t, `CURRENT   NAME      ADDRESS       TEMPORAL NAMESPACE   CLUSTER   NAMESPACE
          default   127.0.0.1:2
*         lab       127.0.0.1:5                                  default
          prod      127.0.0.1:3   fleet-2                        ztp
`, succeeds(t, "config", "get-contexts"))
	require.Equal(t, "default\nlab\nprod\n", succeeds(t, "config", "get-contexts", "-o", "name"))
	view := succeeds(t, "config", "view")
	require.Contains(t, view, "apiKey: true")
	require.NotContains(t, view, "secret-key")
	got := drydock(t, "config", "delete-context", "lab")
	require.Equal(t, exitDone, got.status)
	require.Contains(t, got.stderr, "warning: lab was the current context")
	require.Equal(t, "default\n", succeeds(t, "config", "current-context"))
	require.Equal(t, "default\nprod\n:4\n", succeedsSilently(t, "__complete", "config", "use-context", ""))
}

func TestAConfigurationFileThatIsInvalidIsNotOverwritten(t *testing.T) {
	path := withProfiles(t, "[profile.prod\n")
	got := drydock(t, "config", "set-context", "prod", "--cluster", "c1")
	require.Equal(t, exitUsage, got.status)
	require.Contains(t, got.stderr, "error: configuration file "+path+": ")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "[profile.prod\n", string(text))
	got = drydock(t, "config", "set-context", "prod", "--cluster", "a/b")
	require.Contains(t, got.stderr, `context prod: cluster "a/b" is not a valid cluster name`)
}
