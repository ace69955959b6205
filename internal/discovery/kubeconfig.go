package discovery

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// configOf returns the client configuration of the current context of a kubeconfig that others may write. It uses only addresses, certificates and tokens
// in the kubeconfig itself: a plugin would run a command in the worker, a path would read one of its files, and a proxy would get its requests. No error
// has content of the kubeconfig but the names in it.
func configOf(content []byte, servers Servers) (*rest.Config, error) {
	loaded, err := clientcmd.Load(content)
	if err != nil {
		return nil, errors.New("it is no kubeconfig")
	}
	context := loaded.Contexts[loaded.CurrentContext]
	if context == nil {
		return nil, fmt.Errorf("current-context %q is not one of the contexts", loaded.CurrentContext)
	}
	cluster, user := loaded.Clusters[context.Cluster], loaded.AuthInfos[context.AuthInfo]
	switch {
	case cluster == nil:
		return nil, fmt.Errorf("the kubeconfig has no cluster %q", context.Cluster)
	case user == nil:
		return nil, fmt.Errorf("the kubeconfig has no user %q", context.AuthInfo)
	}
	if err := checkCluster(cluster, servers); err != nil {
		return nil, fmt.Errorf("cluster %q of the kubeconfig: %w", context.Cluster, err)
	}
	if err := checkUser(user); err != nil {
		return nil, fmt.Errorf("user %q of the kubeconfig: %w", context.AuthInfo, err)
	}
	return configFor(&rest.Config{
		Host: cluster.Server, BearerToken: user.Token,
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: cluster.TLSServerName, CAData: cluster.CertificateAuthorityData, CertData: user.ClientCertificateData, KeyData: user.ClientKeyData,
		},
	})
}

func checkCluster(cluster *clientcmdapi.Cluster, servers Servers) error {
	switch {
	case cluster.CertificateAuthority != "":
		return errors.New("certificate-authority is a path: use certificate-authority-data")
	case cluster.InsecureSkipTLSVerify:
		return errors.New("insecure-skip-tls-verify is not allowed: anyone on the way could pose as the cluster")
	case cluster.ProxyURL != "":
		return errors.New("proxy-url is not allowed: set HTTPS_PROXY of the worker")
	}
	if err := servers.allow(cluster.Server); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

func checkUser(user *clientcmdapi.AuthInfo) error {
	for _, refused := range []struct {
		set     bool
		problem string
	}{
		{user.Exec != nil, "exec is not allowed: it would run a command in the worker"},
		{user.AuthProvider != nil, "auth-provider is not allowed: use a token or a client certificate"},
		{user.TokenFile != "", "tokenFile is a path: use token"},
		{user.ClientCertificate != "", "client-certificate is a path: use client-certificate-data"},
		{user.ClientKey != "", "client-key is a path: use client-key-data"},
		{user.Username != "" || user.Password != "", "username and password are not supported: use a token or a client certificate"},
		{
			user.Impersonate != "" || user.ImpersonateUID != "" || len(user.ImpersonateGroups) > 0 || len(user.ImpersonateUserExtra) > 0,
			"impersonation is not supported: use the credentials of the user itself",
		},
		{user.Token == "" && (len(user.ClientCertificateData) == 0 || len(user.ClientKeyData) == 0), "it has neither a token nor a client certificate with its key"},
	} {
		if refused.set {
			return errors.New(refused.problem)
		}
	}
	return nil
}

// configFor completes a configuration of checked values.
func configFor(config *rest.Config) (*rest.Config, error) {
	address, err := url.Parse(config.Host)
	if err != nil {
		return nil, errors.New("server: must be https://HOST:PORT")
	}
	if _, err := rest.TLSConfigFor(config); err != nil {
		return nil, errors.New("its certificates or keys are invalid")
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return oneHost{next, address.Host} })
	return config, nil
}

// oneHost refuses requests to other hosts, to which an answer of the API server could redirect.
type oneHost struct {
	http.RoundTripper
	host string
}

// RoundTrip implements http.RoundTripper.
func (o oneHost) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Host != o.host || request.URL.Scheme != "https" {
		return nil, fmt.Errorf("refused to follow a redirect from %s to %s://%s", o.host, request.URL.Scheme, request.URL.Host)
	}
	return o.RoundTripper.RoundTrip(request)
}
