package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/snapshot"
)

// decisionFlags select the objects and the time of a decision.
type decisionFlags struct {
	snapshot string
	at       string
}

func (c *cli) addDecisionFlags(cmd *cobra.Command, flags *decisionFlags, what string) {
	c.addSourceFlags(cmd, flags, what)
	cmd.Flags().StringVar(&flags.at, "at", "", "decide for this time, e.g. 2026-11-20T22:00:00Z (default: now)")
}

// addSourceFlags adds the flags of a decision that does not depend on the time.
func (c *cli) addSourceFlags(cmd *cobra.Command, flags *decisionFlags, what string) {
	cmd.Flags().StringVar(&flags.snapshot, "snapshot", "", "read the Kubernetes objects from this file instead of a cluster: YAML, JSON or a List, optionally gzipped; - is standard input")
	_ = cmd.MarkFlagFilename("snapshot")
	c.addContextFlag(cmd, what)
	cmd.MarkFlagsMutuallyExclusive("snapshot", "context")
	cmd.MarkFlagsMutuallyExclusive("snapshot", "kubeconfig")
}

// requestTimeout limits one request to an API server unless --timeout is set.
const requestTimeout = time.Minute

// reader reads the objects of a decision from the file or from the cluster.
func (c *cli) reader(flags decisionFlags) (client.Reader, error) {
	if flags.snapshot != "" {
		file, err := snapshot.Open(flags.snapshot, c.In)
		if err != nil {
			return nil, inputError(err)
		}
		return file, nil
	}
	config, err := c.kube.config(c.kube.context)
	if err != nil {
		return nil, err
	}
	config.Timeout = cmp.Or(c.timeout, requestTimeout) // discovery does not use the context's deadline
	scheme, err := kube.NewScheme()
	if err != nil {
		return nil, err
	}
	reader, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("cluster at %s: %w", config.Host, err)
	}
	return reader, nil
}

// unreadable turns an error of reading objects into an input error if they come from a file.
func (f decisionFlags) unreadable(err error) error {
	if f.snapshot == "" {
		return err
	}
	return inputError(err)
}

// source names the source of the objects for messages.
func (c *cli) source(flags decisionFlags) string {
	if flags.snapshot != "" {
		return flags.snapshot
	}
	context := c.kube.context
	if context == "" {
		// An unreadable kubeconfig has already failed.
		known, _ := c.kube.loader("").RawConfig()
		context = known.CurrentContext
	}
	return "the cluster of context " + context + " (--context)"
}

// now is the time of the decision.
func (f decisionFlags) now() (time.Time, error) { return timeOf("--at", f.at, time.Now()) }

// timeOf parses the time in a flag; without one it returns the default.
func timeOf(flag, text string, otherwise time.Time) (time.Time, error) {
	if text == "" {
		return otherwise, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, usagef("%s %q is not a time such as 2026-11-20T22:00:00Z", flag, text)
	}
	return at, nil
}
