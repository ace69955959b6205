package main

import (
	"github.com/spf13/cobra"

	"drydock.dev/drydock/internal/setup"
)

// sites are the kubeconfig contexts of the hub and of spokes.
type sites struct {
	hub    string
	spokes []string
}

func (c *cli) addSiteFlags(cmd *cobra.Command, s *sites) {
	c.addKubeconfigFlag(cmd)
	cmd.Flags().StringVar(&s.hub, "hub-context", "", "kubeconfig context of the hub")
	cmd.Flags().StringSliceVar(&s.spokes, "spoke-context", nil, "kubeconfig context of a spoke (may be repeated)")
	for _, flag := range []string{"hub-context", "spoke-context"} {
		_ = cmd.RegisterFlagCompletionFunc(flag, c.completeContexts)
	}
}

// place is a cluster in one use. A hub that is also a spoke is two places.
type place struct {
	context string
	site    setup.Site
}

func (p place) String() string { return string(p.site) + " " + p.context }

func (s sites) places() []place {
	var places []place
	if s.hub != "" {
		places = append(places, place{s.hub, setup.Hub})
	}
	for _, context := range s.spokes {
		places = append(places, place{context, setup.Spoke})
	}
	return places
}
