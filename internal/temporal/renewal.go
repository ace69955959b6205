package temporal

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

// renew lets a connection use the client certificate and the API key that their files have now, since short-lived ones are renewed while it is used. What is in
// an environment variable does not change.
func (c Connection) renew(options *client.Options, profile envconfig.ClientConfigProfile, logger *slog.Logger) {
	if conf := options.ConnectionOptions.TLS; conf != nil && profile.TLS != nil && profile.TLS.ClientCertPath != "" {
		file := certificateFile{cert: profile.TLS.ClientCertPath, key: profile.TLS.ClientKeyPath, log: logger, last: conf.Certificates[0]}
		conf.GetClientCertificate = file.current
	}
	if profile.APIKey != "" {
		file := apiKeyFile{load: c.profile, log: logger, last: profile.APIKey, read: time.Now()}
		options.Credentials = client.NewAPIKeyDynamicCredentials(file.current)
	}
}

// certificateFile is a client certificate that may be renewed. While its files are broken, the certificate before stays.
type certificateFile struct {
	cert, key string
	log       *slog.Logger

	mu   sync.Mutex
	last tls.Certificate
}

// current is called for each new connection. Temporal closes connections after a few minutes.
func (f *certificateFile) current(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fresh, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		f.log.Error("The client certificate of Temporal cannot be read; the one before stays in use", "file", f.cert, "error", err)
	} else {
		f.last = fresh
	}
	return new(f.last), nil
}

// apiKeyFile is the API key in a profile, which may be renewed. While it cannot be read, the key before stays.
type apiKeyFile struct {
	load func() (envconfig.ClientConfigProfile, error)
	log  *slog.Logger

	mu   sync.Mutex
	last string
	read time.Time
}

// current is called for each request.
func (f *apiKeyFile) current(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.read) < keyFileInterval {
		return f.last, nil
	}
	f.read = time.Now()
	profile, err := f.load()
	switch {
	case err != nil:
		f.log.Error("The API key of Temporal cannot be read; the one before stays in use", "error", err)
	case profile.APIKey != "":
		f.last = profile.APIKey
	}
	return f.last, nil
}
