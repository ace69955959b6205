package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/contrib/envconfig"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/drydock/internal/kube"
)

// A context of Drydock is a profile in the configuration file of the temporal CLI. A table of the profile has what only Drydock needs:
//
//	[profile.prod]
//	address = "temporal.example.com:7233"
//	namespace = "fleet"
//	[profile.prod.drydock]
//	cluster = "spoke-1"
//	namespace = "ztp"
//	encryption-key-file = "/etc/drydock/keys.yaml"
//
// The name of the current context is in a file of its own, because other programs use the same profiles.

// contextTable is the name of that table.
const contextTable = "drydock"

// keyFileSetting is the setting of that table for the key file.
const keyFileSetting = "encryption-key-file"

// contextSettings is that table.
type contextSettings struct {
	// Cluster, Namespace and EncryptionKeyFile are the defaults of --cluster, --namespace and --encryption-key-file.
	Cluster           string `json:"cluster,omitempty"`
	Namespace         string `json:"namespace,omitempty"`
	EncryptionKeyFile string `json:"encryptionKeyFile,omitempty"`
}

// contextFile is the configuration file of the temporal CLI.
type contextFile struct {
	path   string
	config envconfig.ClientConfig
	// others are the fields of profiles that envconfig does not know, with the table of Drydock.
	others map[string]map[string]any
}

// contextPath is the path of the configuration file.
func (c *cli) contextPath() string {
	if c.connection.ConfigFile != "" {
		return c.connection.ConfigFile
	}
	if path := os.Getenv("TEMPORAL_CONFIG_FILE"); path != "" {
		return path
	}
	return envconfig.DefaultConfigFilePath()
}

// loadContexts reads the configuration file. Without one there are no contexts.
func (c *cli) loadContexts() (*contextFile, error) {
	file := &contextFile{path: c.contextPath(), others: map[string]map[string]any{}}
	text, err := os.ReadFile(file.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, inputError(fmt.Errorf("read the configuration file: %w", err))
	}
	if err := file.config.FromTOML(text, envconfig.ClientConfigFromTOMLOptions{AdditionalProfileFields: file.others}); err != nil {
		return nil, inputError(fmt.Errorf("configuration file %s: %w", file.path, err))
	}
	return file, nil
}

func (f *contextFile) names() []string { return slices.Sorted(maps.Keys(f.config.Profiles)) }

// settings are Drydock's settings of a context. It ignores values of another type than text, which another program has written.
func (f *contextFile) settings(name string) contextSettings {
	table, _ := f.others[name][contextTable].(map[string]any)
	cluster, _ := table["cluster"].(string)
	namespace, _ := table["namespace"].(string)
	keyFile, _ := table[keyFileSetting].(string)
	return contextSettings{cluster, namespace, keyFile}
}

// set changes Drydock's settings of a context.
func (f *contextFile) set(name string, settings contextSettings) {
	if f.others[name] == nil {
		f.others[name] = map[string]any{}
	}
	table := map[string]any{}
	for field, value := range map[string]string{"cluster": settings.Cluster, "namespace": settings.Namespace, keyFileSetting: settings.EncryptionKeyFile} {
		if value != "" {
			table[field] = value
		}
	}
	f.others[name][contextTable] = table
}

// save replaces the file at once, so that a reader never sees half of it.
func (f *contextFile) save() error {
	text, err := f.config.ToTOML(envconfig.ClientConfigToTOMLOptions{AdditionalProfileFields: f.others})
	if err != nil {
		return err
	}
	return replaceFile(f.path, text)
}

func replaceFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	written, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // readable only by its owner: it may have credentials
	if err != nil {
		return err
	}
	defer os.Remove(written.Name()) // fails once it is renamed
	_, err = written.Write(text)
	if err = errors.Join(err, written.Close()); err != nil {
		return err
	}
	return os.Rename(written.Name(), path)
}

// currentPath is the path of the file with the name of the current context.
func (f *contextFile) currentPath() string {
	return filepath.Join(filepath.Dir(f.path), "drydock-context")
}

// current is the name of the current context; empty without one.
func (f *contextFile) current() (string, error) {
	text, err := os.ReadFile(f.currentPath())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", inputError(fmt.Errorf("read the current context: %w", err))
	}
	return strings.TrimSpace(string(text)), nil
}

// selected is the name of the context that a command uses: --profile, TEMPORAL_PROFILE or the current one; empty is the profile "default".
func (c *cli) selected(file *contextFile) (string, error) {
	for _, name := range []string{c.connection.Profile, os.Getenv("TEMPORAL_PROFILE")} {
		if name != "" {
			return name, nil // envconfig reports an unknown one
		}
	}
	name, err := file.current()
	if err == nil && name != "" && file.config.Profiles[name] == nil {
		return "", usagef("the current context %q is not in %s: select one of %s with `drydock config use-context`", name, file.path, joined(file.names()))
	}
	return name, err
}

// useContext takes the settings of the selected context for those that no flag and no variable sets.
func (c *cli) useContext() error {
	file, err := c.loadContexts()
	if err != nil {
		return err
	}
	name, err := c.selected(file)
	if err != nil {
		return err
	}
	c.connection.Profile = name
	if name == "" {
		name = envconfig.DefaultConfigFileProfile
	}
	settings := file.settings(name)
	c.contextNamespace = settings.Namespace
	if c.cluster == "" {
		c.cluster = settings.Cluster
	}
	if c.connection.EncryptionKeyFile == "" {
		c.connection.EncryptionKeyFile = settings.EncryptionKeyFile
	}
	return settings.check("context " + name)
}

// check validates the names.
func (s contextSettings) check(where string) error {
	if problems := validation.IsDNS1123Label(s.Namespace); s.Namespace != "" && len(problems) > 0 {
		return usagef("%s: namespace %q: %s", where, s.Namespace, problems[0])
	}
	if err := kube.ValidateName(s.Cluster); s.Cluster != "" && err != nil {
		return usagef("%s: cluster %q is not a valid cluster name: %w", where, s.Cluster, err)
	}
	return nil
}

// completeProfiles completes the names of contexts, which are profiles.
func (c *cli) completeProfiles(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeFlag(func(context.Context) []string {
		file, err := c.loadContexts()
		if err != nil {
			return nil
		}
		return file.names()
	})(cmd, args, typed)
}
