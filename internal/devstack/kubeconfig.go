package devstack

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenSeconds is the lifetime of a ServiceAccount token, longer than that of any stack.
const tokenSeconds = 24 * 60 * 60

// UserConfig returns the config of a user with a client certificate. RBAC applies, except to members of system:masters. There is no client-side rate
// limit.
func (c *Cluster) UserConfig(name string, groups ...string) (*rest.Config, error) {
	certPEM, keyPEM, err := c.authority.User(name, groups...)
	if err != nil {
		return nil, err
	}
	config := c.anonymous()
	config.CertData, config.KeyData = certPEM, keyPEM
	return config, nil
}

// ServiceAccountConfig returns the config of an existing ServiceAccount with a new token, so that a worker runs with exactly its shipped RBAC.
func (c *Cluster) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := c.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("get a token for ServiceAccount %s/%s of cluster %s: %w", namespace, name, c.Name, err)
	}
	config := c.anonymous()
	config.BearerToken = token.Status.Token
	return config, nil
}

// anonymous is a config without a user.
func (c *Cluster) anonymous() *rest.Config {
	return &rest.Config{
		Host:            c.url,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.authority.PEM()},
		QPS:             -1,
	}
}

// WriteKubeconfig writes a kubeconfig with one context of that name.
func WriteKubeconfig(path, context string, config *rest.Config) error {
	file := clientcmdapi.NewConfig()
	file.CurrentContext = context
	file.Contexts[context] = &clientcmdapi.Context{Cluster: context, AuthInfo: context}
	file.Clusters[context] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[context] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData,
		ClientKeyData:         config.KeyData,
		Token:                 config.BearerToken,
	}
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return nil
}
