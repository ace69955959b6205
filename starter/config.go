package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"go.temporal.io/sdk/contrib/envconfig"
)

func newConfig(c *cli) *cobra.Command {
	cmd := noun("config", "Contexts: the Temporal server, the cluster and the namespace that commands use")
	cmd.Long = cmd.Short + `.

A context is a profile in the configuration file of the temporal CLI (TEMPORAL_CONFIG_FILE, or temporalio/temporal.toml in the directory for
the configuration of users), with defaults for --cluster, --namespace and --encryption-key-file in addition. Flags and environment variables override it.

TLS, API keys and codecs of a profile are set with "temporal config set".`
	cmd.AddCommand(newConfigGetContexts(c), newConfigCurrentContext(c), newConfigUseContext(c), newConfigSetContext(c), newConfigDeleteContext(c), newConfigView(c))
	return cmd
}

// contextEntry is a context as programs read it. Credentials are only named.
type contextEntry struct {
	Name              string `json:"name"`
	Current           bool   `json:"current"`
	Address           string `json:"address,omitempty"`
	TemporalNamespace string `json:"temporalNamespace,omitempty"`
	contextSettings
	// TLS, APIKey and Codec: the profile has them.
	TLS    bool `json:"tls,omitempty"`
	APIKey bool `json:"apiKey,omitempty"`
	Codec  bool `json:"codec,omitempty"`
}

// contexts are the contexts of a file.
type contexts struct {
	File  string         `json:"file"`
	Items []contextEntry `json:"items"`
}

// readContexts reads all contexts. A broken current one does not hide them.
func (c *cli) readContexts() (*contextFile, contexts, error) {
	file, err := c.loadContexts()
	if err != nil {
		return nil, contexts{}, err
	}
	current, err := file.current()
	if err != nil {
		return nil, contexts{}, err
	}
	found := contexts{File: file.path, Items: []contextEntry{}}
	for _, name := range file.names() {
		profile := file.config.Profiles[name]
		found.Items = append(found.Items, contextEntry{
			Name: name, Current: name == current || current == "" && name == envconfig.DefaultConfigFileProfile,
			Address: profile.Address, TemporalNamespace: profile.Namespace, contextSettings: file.settings(name),
			TLS: profile.TLS != nil, APIKey: profile.APIKey != "", Codec: profile.Codec != nil,
		})
	}
	return file, found, nil
}

func newConfigGetContexts(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "get-contexts", Aliases: []string{"list"}, Short: "List the contexts, and which one is current", Args: operands(),
		RunE: c.plainVerb(func(context.Context, []string) error {
			_, found, err := c.readContexts()
			if err != nil {
				return err
			}
			var names []string
			for _, entry := range found.Items {
				names = append(names, entry.Name)
			}
			return c.print(found, func(w *page) { renderContexts(w, found) }, names...)
		}),
	}
	cmd.Flags().BoolVar(&c.noHeaders, "no-headers", false, "leave out the header of a table")
	c.addOutputFlag(cmd)
	return cmd
}

func renderContexts(w *page, found contexts) {
	if len(found.Items) == 0 {
		fmt.Fprintf(w, "no contexts in %s; add one with `drydock config set-context NAME --address HOST:PORT`\n", found.File)
		return
	}
	t := w.newTable("CURRENT", "NAME", "ADDRESS", "TEMPORAL NAMESPACE", "CLUSTER", "NAMESPACE")
	for _, entry := range found.Items {
		current := ""
		if entry.Current {
			current = "*"
		}
		t.AppendRow(table.Row{current, entry.Name, entry.Address, entry.TemporalNamespace, entry.Cluster, entry.Namespace})
	}
	fmt.Fprintln(w, t.Render())
}

func newConfigCurrentContext(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "current-context", Short: "Print the name of the current context", Args: operands(),
		RunE: c.plainVerb(func(context.Context, []string) error {
			file, err := c.loadContexts()
			if err != nil {
				return err
			}
			name, err := file.current()
			if err != nil {
				return err
			}
			if name == "" {
				name = envconfig.DefaultConfigFileProfile
			}
			_, err = fmt.Fprintln(c.Out, name)
			return err
		}),
	}
}

func newConfigUseContext(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "use-context NAME", Short: "Make a context the current one", Args: operands("NAME"), ValidArgsFunction: c.completeContextNames(),
		RunE: c.plainVerb(func(_ context.Context, args []string) error {
			file, err := c.knownContext(args[0])
			if err != nil {
				return err
			}
			if err := replaceFile(file.currentPath(), []byte(args[0]+"\n")); err != nil {
				return err
			}
			return c.say("context %s is the current one", args[0])
		}),
	}
}

// knownContext reads the contexts, of which one has the given name.
func (c *cli) knownContext(name string) (*contextFile, error) {
	file, err := c.loadContexts()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(file.names(), name) {
		return nil, usagef("no context %q in %s; it has %s", name, file.path, joined(file.names()))
	}
	return file, nil
}

func (c *cli) completeContextNames() cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.completeProfiles(cmd, args, typed)
	}
}

func newConfigSetContext(c *cli) *cobra.Command {
	var settings contextSettings
	cmd := &cobra.Command{
		Use:   "set-context NAME",
		Short: "Create a context, or change its settings",
		Long: `Create a context, or change its settings: the address and the namespace of Temporal (--address, --temporal-namespace), and the defaults of
--cluster, --namespace and --encryption-key-file. Settings without a flag stay as they are; an empty value removes one.

Comments in the file are lost.`,
		Args: operands("NAME"), ValidArgsFunction: c.completeContextNames(),
	}
	cmd.RunE = c.plainVerb(func(_ context.Context, args []string) error {
		if err := settings.check("context " + args[0]); err != nil {
			return err
		}
		file, err := c.loadContexts()
		if err != nil {
			return err
		}
		profile := file.config.Profiles[args[0]]
		if profile == nil {
			profile = &envconfig.ClientConfigProfile{}
			file.config.Profiles[args[0]] = profile
		}
		changed := file.settings(args[0])
		keyFile := c.connection.EncryptionKeyFile
		if keyFile != "" {
			if keyFile, err = filepath.Abs(keyFile); err != nil {
				return err
			}
		}
		for flag, set := range map[string]func(){
			"address":            func() { profile.Address = c.connection.Address },
			"temporal-namespace": func() { profile.Namespace = c.connection.Namespace },
			"cluster":            func() { changed.Cluster = settings.Cluster },
			"namespace":          func() { changed.Namespace = settings.Namespace },
			keyFileSetting:       func() { changed.EncryptionKeyFile = keyFile },
		} {
			if cmd.Flags().Changed(flag) {
				set()
			}
		}
		file.set(args[0], changed)
		if err := file.save(); err != nil {
			return err
		}
		return c.say("context %s is set in %s", args[0], file.path)
	})
	cmd.Flags().StringVar(&settings.Cluster, "cluster", "", "default of --cluster")
	cmd.Flags().StringVarP(&settings.Namespace, "namespace", "n", "", "default of --namespace")
	return cmd
}

func newConfigDeleteContext(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "delete-context NAME", Aliases: []string{"delete"}, Short: "Delete a context, with its profile",
		Args: operands("NAME"), ValidArgsFunction: c.completeContextNames(),
		RunE: c.plainVerb(func(_ context.Context, args []string) error {
			file, err := c.knownContext(args[0])
			if err != nil {
				return err
			}
			current, err := file.current()
			if err != nil {
				return err
			}
			delete(file.config.Profiles, args[0])
			delete(file.others, args[0])
			if err := file.save(); err != nil {
				return err
			}
			if current == args[0] {
				if err := os.Remove(file.currentPath()); err != nil {
					return err
				}
				c.warn("warning: %s was the current context: the profile %s is used now", args[0], envconfig.DefaultConfigFileProfile)
			}
			return c.say("context %s is deleted from %s", args[0], file.path)
		}),
	}
}

func newConfigView(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "view", Short: "Show the file of the contexts and its content, without credentials", Args: operands(),
		RunE: c.plainVerb(func(context.Context, []string) error {
			_, found, err := c.readContexts()
			if err != nil {
				return err
			}
			if c.forPeople() && c.render == nil {
				c.output = formatYAML
			}
			return c.print(found, nil)
		}),
	}
	c.addOutputFlag(cmd)
	return cmd
}
