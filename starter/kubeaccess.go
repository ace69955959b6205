package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// kubeAccess selects the kubeconfig contexts that the command itself connects to. Workers have their own configuration.
type kubeAccess struct {
	kubeconfig string
	context    string
}

func (c *cli) addKubeconfigFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.kube.kubeconfig, "kubeconfig", "", "kubeconfig file (env KUBECONFIG; default ~/.kube/config)")
}

func (c *cli) addContextFlag(cmd *cobra.Command, what string) {
	c.addKubeconfigFlag(cmd)
	cmd.Flags().StringVar(&c.kube.context, "context", "", "kubeconfig context of "+what+" (default: the current one)")
	_ = cmd.RegisterFlagCompletionFunc("context", c.completeContexts)
}

// config returns the access to a kubeconfig context; an empty name is the current one.
func (k kubeAccess) config(context string) (*rest.Config, error) {
	loader := k.loader(context)
	known, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if _, exists := known.Contexts[context]; context != "" && !exists {
		return nil, usagef("kubeconfig has no context %q; it has %s", context, joined(slices.Sorted(maps.Keys(known.Contexts))))
	}
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, usagef("no kubeconfig: set --kubeconfig or KUBECONFIG, or work offline with --snapshot")
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	// A single command sends few requests and needs no rate limit.
	config.QPS = -1
	return config, nil
}

func (k kubeAccess) loader(context string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = k.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
}

// joined lists names for a message.
func joined(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
