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

// decisionFlags say on what, and for when, a decision is made.
type decisionFlags struct {
	snapshot string
	at       string
}

func (c *cli) addDecisionFlags(cmd *cobra.Command, flags *decisionFlags, what string) {
	c.addSourceFlags(cmd, flags, what)
	cmd.Flags().StringVar(&flags.at, "at", "", "decide as if it were this time, e.g. 2026-11-20T22:00:00Z (default: now)")
}

// addSourceFlags are the flags of a decision that does not depend on the time.
func (c *cli) addSourceFlags(cmd *cobra.Command, flags *decisionFlags, what string) {
	cmd.Flags().StringVar(&flags.snapshot, "snapshot", "", "decide on the Kubernetes objects in this file instead of a cluster: YAML, JSON or a List, gzip or not; - is standard input")
	_ = cmd.MarkFlagFilename("snapshot")
	c.addContextFlag(cmd, what)
	c.addTimeoutFlag(cmd)
	cmd.MarkFlagsMutuallyExclusive("snapshot", "context")
	cmd.MarkFlagsMutuallyExclusive("snapshot", "kubeconfig")
}

// requestTimeout is how long an API server may take to answer one request where --timeout does not say so.
const requestTimeout = time.Minute

// reader reads the objects of a decision: from the file, or from the cluster. Either way they are decided on by the same function.
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
	config.Timeout = cmp.Or(c.timeout, requestTimeout) // discovery knows no context
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

// unreadable makes an error of reading the objects one of input where they are from a file: then only its content can be wrong.
func (f decisionFlags) unreadable(err error) error {
	if f.snapshot == "" {
		return err
	}
	return inputError(err)
}

// source says where the objects are from, for messages.
func (c *cli) source(flags decisionFlags) string {
	if flags.snapshot != "" {
		return flags.snapshot
	}
	context := c.kube.context
	if context == "" {
		// An unreadable kubeconfig would have been told of before.
		known, _ := c.kube.loader("").RawConfig()
		context = known.CurrentContext
	}
	return "the cluster of context " + context + " (--context)"
}

// now is when the decision is made.
func (f decisionFlags) now() (time.Time, error) { return timeOf("--at", f.at, time.Now()) }

// timeOf reads the time that a flag gives; without one it is the other.
func timeOf(flag, text string, otherwise time.Time) (time.Time, error) {
	if text == "" {
		return otherwise, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, usagef("%s %q is not a time as in 2026-11-20T22:00:00Z", flag, text)
	}
	return at, nil
}
