package pull

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"drydock.dev/drydock/internal/prepare/cri"
)

// logins are the entries of a pull secret, by registry or by registry and the beginning of a repository.
type logins map[string]struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// readLogins reads a pull secret in Docker's format. A node without one has no logins.
func readLogins(file string) (logins, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pull secret of the node: %w", err)
	}
	var secret struct {
		Auths logins `json:"auths"`
	}
	if err := json.Unmarshal(data, &secret); err != nil {
		return nil, fmt.Errorf("pull secret of the node: %s: %w", file, err)
	}
	return secret.Auths, nil
}

// of returns the login for an image: that of the most specific entry, as the kubelet matches them. Without one, the second result is false.
func (l logins) of(image string) (cri.Login, bool, error) {
	reference, err := name.ParseReference(image)
	if err != nil {
		return cri.Login{}, false, err
	}
	repository := reference.Context()
	best, bestLength := "", -1
	for entry := range l {
		registry, prefix := splitEntry(entry)
		// A longer path is more specific, and a name more than a pattern.
		length := 2 * len(prefix)
		if registry == repository.RegistryStr() {
			length++
		}
		if length > bestLength && matchesRegistry(registry, repository.RegistryStr()) && withinPath(repository.RepositoryStr(), prefix) {
			best, bestLength = entry, length
		}
	}
	if bestLength < 0 {
		return cri.Login{}, false, nil
	}
	entry := l[best]
	login := cri.Login{Username: entry.Username, Password: entry.Password, IdentityToken: entry.IdentityToken, RegistryToken: entry.RegistryToken}
	if entry.Auth != "" {
		decoded, err := base64.StdEncoding.DecodeString(entry.Auth)
		user, password, found := strings.Cut(string(decoded), ":")
		if err != nil || !found {
			return cri.Login{}, false, fmt.Errorf("pull secret of the node: auth of %s is not user:password in base64", best)
		}
		login.Username, login.Password = user, password
	}
	// The registry of Docker Hub has another name than its images.
	if repository.RegistryStr() != name.DefaultRegistry {
		login.Server = "https://" + repository.RegistryStr()
	}
	return login, true, nil
}

// splitEntry splits an entry such as https://registry.example.com/v1/ or registry.example.com/team.
func splitEntry(entry string) (registry, prefix string) {
	if _, after, found := strings.Cut(entry, "://"); found {
		entry = after
	}
	registry, prefix, _ = strings.Cut(entry, "/")
	prefix = strings.Trim(prefix, "/")
	if prefix == "v1" || prefix == "v2" {
		prefix = ""
	}
	if registry == "docker.io" {
		registry = name.DefaultRegistry
	}
	return registry, prefix
}

// matchesRegistry compares the parts of host names, each of which may be a pattern such as *.
func matchesRegistry(pattern, registry string) bool {
	patterns, parts := strings.Split(pattern, "."), strings.Split(registry, ".")
	if len(patterns) != len(parts) {
		return false
	}
	for i := range parts {
		if matched, err := path.Match(patterns[i], parts[i]); err != nil || !matched {
			return false
		}
	}
	return true
}

func withinPath(repository, prefix string) bool {
	return prefix == "" || repository == prefix || strings.HasPrefix(repository, prefix+"/")
}
