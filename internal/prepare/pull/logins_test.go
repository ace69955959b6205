package pull

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/prepare/cri"
)

func TestTheMostSpecificLoginOfThePullSecretIsUsed(t *testing.T) {
	entries := []string{
		"quay.io", "quay.io/team", "quay.io/team/app", "*.example.com", "registry.example.com", "registry.example.com:5000", "https://index.docker.io/v1/", "http://plain.test/",
	}
	var auths []string
	for _, entry := range entries {
		auths = append(auths, fmt.Sprintf("%q: {\"auth\": %q}", entry, base64.StdEncoding.EncodeToString([]byte(entry+":password:x"))))
	}
	file := filepath.Join(t.TempDir(), "config.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"auths": {`+strings.Join(auths, ",")+`}}`), 0o600))
	l, err := readLogins(file)
	require.NoError(t, err)
	for image, want := range map[string]string{
		"quay.io/other/app:1": "quay.io", "quay.io/team/b:1": "quay.io/team", "quay.io/team/app@sha256:" + strings.Repeat("0", 64): "quay.io/team/app", "quay.io/teams/app": "quay.io",
		"registry.example.com/a": "registry.example.com", "registry.example.com:5000/a": "registry.example.com:5000", "mirror.example.com/a/b:1": "*.example.com",
		"a.b.example.com/a": "", "example.com/a": "", "other.test/a": "", "plain.test/a": "http://plain.test/",
	} {
		login, found, err := l.of(image)
		require.NoError(t, err)
		require.Equal(t, want != "", found, image)
		if found {
			registry, _, _ := strings.Cut(image, "/")
			// Passwords may have colons, and the user name ends at the first one.
			user, password, _ := strings.Cut(want+":password:x", ":")
			require.Equal(t, cri.Login{Server: "https://" + registry, Username: user, Password: password}, login, image)
		}
	}
	login, found, err := l.of("busybox:1")
	require.NoError(t, err)
	require.True(t, found)
	require.Empty(t, login.Server, "the registry of Docker Hub has another name")
}

func TestAPullSecretThatCannotBeReadIsNamed(t *testing.T) {
	none, err := readLogins(filepath.Join(t.TempDir(), "none"))
	require.NoError(t, err)
	require.Empty(t, none)
	file := filepath.Join(t.TempDir(), "config.json")
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	_, err = readLogins(file)
	require.ErrorContains(t, err, "pull secret of the node: "+file)
	_, _, err = logins{"a.test": {Auth: "?"}}.of("a.test/b")
	require.ErrorContains(t, err, "auth of a.test is not user:password in base64")
}
