package main

import (
	"crypto/x509"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"drydock.dev/drydock/internal/statuspage"
)

// oidcFlags say who may read and change what the status page shows, with a token of an OpenID Connect issuer.
type oidcFlags struct {
	issuerURL, clientID, userClaim, groupsClaim, caFile string
	view, operate                                       []string
}

func (f *oidcFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.issuerURL, "oidc-issuer-url", "", "URL of the OpenID Connect issuer whose tokens are accepted, e.g. https://login.example.com (default: none)")
	flags.StringVar(&f.clientID, "oidc-client-id", "", "client ID of this server at the issuer, for which those tokens must be made")
	flags.StringVar(&f.userClaim, "oidc-username-claim", "email", "claim with the user, who is recorded as the actor of changes")
	flags.StringVar(&f.groupsClaim, "oidc-groups-claim", "groups", "claim with the groups of the user")
	flags.StringSliceVar(&f.operate, "oidc-operate", nil, "groups that may announce and cancel maintenances")
	flags.StringSliceVar(&f.view, "oidc-view", nil, "groups that may read; if set, others cannot (default: everyone who can reach the page)")
	flags.StringVar(&f.caFile, "oidc-ca-file", "", "file with the PEM certificates that verify the issuer (default: those of the system)")
}

// issuer returns the issuer of tokens; nil without one.
func (f oidcFlags) issuer() (*statuspage.OIDC, error) {
	if f.issuerURL == "" {
		switch {
		case f.clientID != "":
			return nil, usagef("--oidc-client-id: needs --oidc-issuer-url")
		case len(f.view)+len(f.operate) > 0:
			return nil, usagef("--oidc-view, --oidc-operate: need --oidc-issuer-url")
		case f.caFile != "":
			return nil, usagef("--oidc-ca-file: needs --oidc-issuer-url")
		}
		return nil, nil
	}
	oidc := &statuspage.OIDC{Issuer: f.issuerURL, ClientID: f.clientID, UserClaim: f.userClaim, GroupsClaim: f.groupsClaim}
	if err := oidc.Check(); err != nil {
		return nil, usagef("%w", err)
	}
	if slices.Contains(append(slices.Clone(f.view), f.operate...), "") {
		return nil, usagef("--oidc-view, --oidc-operate: a group must not be empty")
	}
	if len(f.view)+len(f.operate) == 0 {
		return nil, usagef("--oidc-issuer-url: set --oidc-operate or --oidc-view: without a group its tokens allow nothing")
	}
	if f.caFile != "" {
		text, err := os.ReadFile(f.caFile)
		if err != nil {
			return nil, inputError(fmt.Errorf("--oidc-ca-file: %w", err))
		}
		if oidc.Roots = x509.NewCertPool(); !oidc.Roots.AppendCertsFromPEM(text) {
			return nil, inputError(fmt.Errorf("--oidc-ca-file %s: it has no PEM certificate", f.caFile))
		}
	}
	return oidc, nil
}
