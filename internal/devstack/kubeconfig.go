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

// tokenSeconds is how long a ServiceAccount's token lives: longer than any stack.
const tokenSeconds = 24 * 60 * 60

// UserConfig returns the access of a user with a client certificate. RBAC limits the user, except members of
// system:masters. There is no client-side rate limit unless QPS is set.
func (c *Cluster) UserConfig(name string, groups ...string) (*rest.Config, error) {
	certPEM, keyPEM, err := c.authority.user(name, groups...)
	if err != nil {
		return nil, err
	}
	config := c.anonymous()
	config.CertData, config.KeyData = certPEM, keyPEM
	return config, nil
}

// ServiceAccountConfig returns the access of an existing ServiceAccount, with a new token, so that a worker runs with
// exactly its shipped RBAC.
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

// anonymous is the address of the API server, without a user.
func (c *Cluster) anonymous() *rest.Config {
	return &rest.Config{
		Host:            c.url,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.authority.pem()},
		QPS:             -1,
	}
}

// WriteKubeconfig writes a kubeconfig whose one context has the given name.
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
