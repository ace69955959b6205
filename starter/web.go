package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"drydock.dev/drydock/internal/webaccess"
)

// webFlags are the flags of a command that serves HTTP: where, and for whom.
type webFlags struct {
	listen, tokenFile string
	certFile, keyFile string
	plainTextToken    bool
	hosts             []string
}

// add adds the flags. The texts say who reads what is served, and what the token allows.
func (f *webFlags) add(flags *pflag.FlagSet, listen, readers, token string) {
	flags.StringVar(&f.listen, "listen", listen, "address to serve on; "+readers)
	flags.StringVar(&f.tokenFile, "token-file", "", token)
	flags.BoolVar(&f.plainTextToken, "allow-plain-text-token", false, "accept the token without TLS on an address that other machines reach, as behind a proxy with TLS")
	flags.StringVar(&f.certFile, "tls-cert", "", "file with the PEM certificate, and its chain, to serve HTTPS; read again when it changes (default: plain HTTP)")
	flags.StringVar(&f.keyFile, "tls-key", "", "file with the PEM private key of the certificate")
	flags.StringSliceVar(&f.hosts, "host", nil, "host names under which clients reach the server (default: localhost and IP addresses only)")
}

// tokenLength is the minimum length of a token, so that it cannot be guessed.
const tokenLength = 16

// token validates the flags and reads the token; empty without one.
func (f webFlags) token() (string, error) {
	if (f.certFile == "") != (f.keyFile == "") {
		return "", usagef("--tls-cert and --tls-key: set both or none")
	}
	if f.tokenFile == "" {
		return "", nil
	}
	if err := f.encrypted("--token-file"); err != nil {
		return "", err
	}
	text, err := os.ReadFile(f.tokenFile)
	if err != nil {
		return "", inputError(fmt.Errorf("--token-file: %w", err))
	}
	if text = bytes.TrimSpace(text); len(text) < tokenLength {
		return "", inputError(fmt.Errorf("--token-file %s: the token has %d characters; it must have %d or more", f.tokenFile, len(text), tokenLength))
	}
	return string(text), nil
}

// encrypted refuses that tokens, which a flag allows, travel in plain text.
func (f webFlags) encrypted(flag string) error {
	if f.certFile == "" && !f.plainTextToken && !isLoopback(f.listen) {
		return usagef("%s: --listen %s is reached by other machines, and the token would travel in plain text: set --tls-cert and --tls-key, "+
			"or --allow-plain-text-token behind a proxy with TLS", flag, f.listen)
	}
	return nil
}

// tls is the configuration for the certificate, which is read again when its file changes; nil without one.
func (f webFlags) tls(ctx context.Context) (*tls.Config, error) {
	if f.certFile == "" {
		return nil, nil
	}
	certificates, err := certwatcher.New(f.certFile, f.keyFile)
	if err != nil {
		return nil, inputError(fmt.Errorf("--tls-cert, --tls-key: %w", err))
	}
	go func() { _ = certificates.Start(ctx) }() // it also reads the files every ten seconds
	return &tls.Config{GetCertificate: certificates.GetCertificate, MinVersion: tls.VersionTLS12}, nil
}

// scheme is that of the addresses of the server.
func (f webFlags) scheme() string {
	if f.certFile == "" {
		return "http"
	}
	return "https"
}

// isLoopback reports whether only this machine reaches a listen address.
func isLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && webaccess.IsLoopback(host)
}
