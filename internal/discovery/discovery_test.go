package discovery

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kubeconfig returns a kubeconfig with these fields of its cluster and its user.
func kubeconfig(cluster, user string) string {
	return fmt.Sprintf(`
current-context: c
contexts: [{name: c, context: {cluster: edge, user: drydock}}]
clusters: [{name: edge, cluster: {%s}}]
users: [{name: drydock, user: {%s}}]`, cluster, user)
}

const (
	server = "server: 'https://api.example.com:6443'"
	token  = "token: secret-of-edge"
)

func TestAKubeconfigOfOthersRunsNothingAndReadsNothing(t *testing.T) {
	config, err := configOf([]byte(kubeconfig(server+", tls-server-name: kubernetes", token)), Servers{"*.example.com:6443"})
	require.NoError(t, err)
	require.Equal(t, "https://api.example.com:6443", config.Host)
	require.Equal(t, "secret-of-edge", config.BearerToken)
	require.Equal(t, "kubernetes", config.ServerName)

	for _, tt := range []struct{ name, content, problem string }{
		{"a command", kubeconfig(server, "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}"), `user "drydock" of the kubeconfig: exec is not allowed`},
		{"a plugin beside a token", kubeconfig(server, token+", auth-provider: {name: gcp}"), "auth-provider is not allowed"},
		{"the token of the pod", kubeconfig(server, "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token"), "tokenFile is a path"},
		{"a certificate of the worker", kubeconfig(server, token+", client-certificate: /etc/drydock/temporal-client/tls.crt"), "client-certificate is a path"},
		{"a key of the worker", kubeconfig(server, token+", client-key: /etc/drydock/temporal-client/tls.key"), "client-key is a path"},
		{"an authority of the worker", kubeconfig(server+", certificate-authority: /etc/passwd", token), "certificate-authority is a path"},
		{"no check of the server", kubeconfig(server+", insecure-skip-tls-verify: true", token), "insecure-skip-tls-verify is not allowed"},
		{"a proxy", kubeconfig(server+", proxy-url: 'http://10.0.0.1:3128'", token), "proxy-url is not allowed"},
		{"plain text", kubeconfig("server: 'http://api.example.com:6443'", token), `cluster "edge" of the kubeconfig: server: must be https://HOST:PORT`},
		{"credentials in the address", kubeconfig("server: 'https://a:b@api.example.com:6443'", token), "server: must be https://HOST:PORT"},
		{"another host", kubeconfig("server: 'https://169.254.169.254'", token), "server: host 169.254.169.254 is not one of the servers that the clusters file allows here"},
		{"a password", kubeconfig(server, "username: a, password: b"), "username and password are not supported"},
		{"another user", kubeconfig(server, token+", as: admin"), "impersonation is not supported"},
		{"no credentials", kubeconfig(server, ""), "it has neither a token nor a client certificate"},
		{"a broken certificate", kubeconfig(server+", certificate-authority-data: "+base64.StdEncoding.EncodeToString([]byte("none")), token), "its certificates or keys are invalid"},
		{"no context", strings.Replace(kubeconfig(server, token), "current-context: c", "current-context: d", 1), `current-context "d" is not one of the contexts`},
		{"no user", strings.Replace(kubeconfig(server, token), "user: drydock}}]", "user: nobody}}]", 1), `the kubeconfig has no user "nobody"`},
		{"something else", "secret-of-edge", "it is no kubeconfig"},
	} {
		t.Run(tt.name+" is refused", func(t *testing.T) {
			_, err := configOf([]byte(tt.content), Servers{"*.example.com:6443"})
			require.ErrorContains(t, err, tt.problem)
			require.NotContains(t, err.Error(), "secret-of-edge")
		})
	}
	_, err = configOf([]byte(kubeconfig("server: 'https://10.0.0.7'", token)), Servers{"*"})
	require.NoError(t, err)
}

// A redirect would have the worker send requests into its own network, and show the answer in an error.
func TestARedirectOfAnAPIServerIsNotFollowed(t *testing.T) {
	internal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "internal") }))
	defer internal.Close()
	redirecting := httptest.NewTLSServer(http.RedirectHandler(internal.URL+"/latest/meta-data", http.StatusFound))
	defer redirecting.Close()
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: redirecting.Certificate().Raw}))
	config, err := configOf([]byte(kubeconfig("server: '"+redirecting.URL+"', certificate-authority-data: "+authority, token)), Servers{"127.0.0.1:*"})
	require.NoError(t, err)
	requests, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	_, err = requests.Get(redirecting.URL)
	require.ErrorContains(t, err, "refused to follow a redirect")
}

func secret(name, cluster, content string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "clusters", Name: name, UID: types.UID(name), ResourceVersion: "1", Labels: map[string]string{LabelCluster: cluster, "cluster.x-k8s.io/cluster-name": cluster},
		},
		Data: map[string][]byte{"kubeconfig": []byte(content), "value": []byte(content), "ca.key": []byte("secret")},
	}
}

// find returns the clusters of a source as NAME, or the problem, by the name of the object.
func find(t *testing.T, source Source, read ...[]client.Object) map[string]string {
	t.Helper()
	for i, objects := range read {
		for j, object := range objects {
			trimmed, err := source.Reads[i].Trim(object)
			require.NoError(t, err)
			read[i][j] = trimmed.(client.Object)
		}
	}
	found := map[string]string{}
	for _, cluster := range source.Find(read) {
		found[cluster.From] = cluster.Name
		if cluster.Config == nil {
			found[cluster.From] = cluster.Problem
		}
	}
	return found
}

func sourceOf(t *testing.T, settings Settings) Source {
	t.Helper()
	sources := settings.Sources()
	require.Len(t, sources, 1)
	return sources[0]
}

func TestASecretNamesItsClusterByALabelOrByItsName(t *testing.T) {
	valid := kubeconfig(server, token)
	of := func(s Secrets) Source {
		s.Namespaces, s.Selector, s.Servers = []string{"clusters"}, "a", Servers{"*"}
		return sourceOf(t, Settings{Secrets: []Secrets{s}})
	}
	broken := secret("broken", "edge-3", valid)
	delete(broken.Data, "kubeconfig")
	require.Equal(t, map[string]string{
		"Secret clusters/any":    "edge-1",
		"Secret clusters/none":   "it has no label drydock.dev/cluster with the name of the cluster",
		"Secret clusters/wrong":  `"Edge" cannot be the name of a cluster: ` + "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
		"Secret clusters/broken": "it has no key kubeconfig",
	}, find(t, of(Secrets{}), []client.Object{secret("any", "edge-1", valid), secret("none", "", valid), secret("wrong", "Edge", valid), broken}))

	capi := []client.Object{secret("edge-1-kubeconfig", "edge-1", valid), secret("edge-1-user-kubeconfig", "edge-1", valid), secret("edge-1-ca", "edge-1", valid)}
	require.Equal(t, map[string]string{"Secret clusters/edge-1-kubeconfig": "edge-1"},
		find(t, of(Secrets{NameLabel: "cluster.x-k8s.io/cluster-name", NameSuffix: "-kubeconfig", Key: "value"}), capi))
	require.Equal(t, map[string]string{"Secret clusters/edge-2-admin-kubeconfig": "edge-2"},
		find(t, of(Secrets{NameSuffix: "-admin-kubeconfig"}), []client.Object{secret("edge-2-admin-kubeconfig", "", valid), secret("edge-2-admin-password", "", valid)}))
}

func TestACacheKeepsTheKubeconfigOnly(t *testing.T) {
	source := sourceOf(t, Settings{Secrets: []Secrets{{Namespaces: []string{"clusters"}, Selector: "a", Servers: Servers{"*"}}}})
	trimmed, err := source.Reads[0].Trim(secret("a", "a", "content"))
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"kubeconfig": []byte("content")}, trimmed.(*corev1.Secret).Data)
}

func TestAChangedSecretIsReadAgain(t *testing.T) {
	source := sourceOf(t, Settings{Secrets: []Secrets{{Namespaces: []string{"clusters"}, Selector: "a", Servers: Servers{"*"}}}})
	changing := secret("a", "edge-1", kubeconfig(server, token))
	for version, want := range []string{"first", "second"} {
		changing.ResourceVersion, changing.Data["kubeconfig"] = fmt.Sprint(version+1), []byte(kubeconfig(server, "token: "+want))
		require.Equal(t, want, source.Find([][]client.Object{{changing}})[0].Config.BearerToken)
	}
}

// FuzzKubeconfigOfOthers reads kubeconfigs as anybody may have written them.
func FuzzKubeconfigOfOthers(f *testing.F) {
	for _, seed := range []string{
		kubeconfig(server, token), kubeconfig(server, "exec: {command: sh}"), kubeconfig(server+", proxy-url: 'http://a'", token), kubeconfig("server: '//api.example.com:6443'", token),
		kubeconfig("server: 'HTTPS://API.example.com:6443/path?a#b'", token), "{", "contexts: [null]", "current-context: ''\ncontexts: [{name: '', context: null}]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		config, err := configOf(content, Servers{"*.example.com:6443"})
		if err != nil {
			return
		}
		address, err := url.Parse(config.Host)
		require.NoError(t, err)
		require.Equal(t, "https", address.Scheme)
		require.True(t, strings.HasSuffix(strings.ToLower(address.Hostname()), ".example.com"), config.Host)
		require.Equal(t, "6443", address.Port())
		require.Empty(t, config.CAFile+config.CertFile+config.KeyFile+config.BearerTokenFile+config.Username+config.Password+config.Impersonate.UserName)
		require.Nil(t, config.ExecProvider)
		require.Nil(t, config.AuthProvider)
		require.False(t, config.Insecure)
	})
}

func managedCluster(name string, accepted bool, addresses ...string) *unstructured.Unstructured {
	configs := []any{}
	for _, address := range addresses {
		configs = append(configs, map[string]any{"url": address})
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"hubAcceptsClient": accepted, "managedClusterClientConfigs": configs}}}
	object.SetName(name)
	return object
}

func TestAManagedClusterNeedsAnAddressAndAToken(t *testing.T) {
	const allowed, other = "https://api.example.com:6443", "https://10.0.0.1"
	source := sourceOf(t, Settings{ManagedClusters: &ManagedClusters{Servers: Servers{"*.example.com:6443"}}})
	tokens := []client.Object{}
	for _, namespace := range []string{"used", "second", "refused", "nowhere", "new"} {
		tokens = append(tokens, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: TokenSecret}, Data: map[string][]byte{"token": []byte("t")}})
	}
	tokens = append(tokens, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "empty", Name: TokenSecret}})
	require.Equal(t, map[string]string{
		"ManagedCluster used":    "used",
		"ManagedCluster second":  "second",
		"ManagedCluster refused": "spec.managedClusterClientConfigs[0].url: host 10.0.0.1 is not one of the servers that the clusters file allows here",
		"ManagedCluster nowhere": "spec.managedClusterClientConfigs has no address of its API server",
		"ManagedCluster new":     "the hub has not accepted it: spec.hubAcceptsClient is not true",
		"ManagedCluster empty":   "Secret empty/drydock-initiator has no key token",
		"ManagedCluster inside":  "there is no Secret inside/drydock-initiator with its token",
	}, find(t, source, []client.Object{
		managedCluster("used", true, allowed), managedCluster("second", true, other, allowed), managedCluster("refused", true, other), managedCluster("nowhere", true),
		managedCluster("new", false, allowed), managedCluster("empty", true, allowed), managedCluster("inside", true, allowed),
	}, tokens))
}

func TestNoNameHasTwoClusters(t *testing.T) {
	config := &rest.Config{}
	merged := Merge(func(name string) bool { return name == "in-file" }, []Cluster{
		{Name: "one", From: "Secret a/one", Config: config},
		{Name: "in-file", From: "Secret a/in-file", Config: config},
		{Name: "two", From: "Secret a/two", Config: config},
		{Name: "two", From: "ManagedCluster two", Config: config},
		{Name: "same", From: "Secret a/same", Config: config},
		{Name: "same", From: "Secret a/same", Config: config},
		{Name: "inside", From: "ManagedCluster inside", Problem: "no token", NoCredentials: true},
		{Name: "inside", From: "Secret a/inside", Config: config},
		{From: "Secret a/unnamed", Problem: "no name"},
		{From: "Secret a/nameless", Problem: "no name"},
	})
	var problems []string
	for _, cluster := range merged {
		require.Equal(t, cluster.Problem == "", cluster.Config != nil)
		problems = append(problems, cluster.Problem)
	}
	require.Equal(t, []string{
		"", "the clusters file has a cluster in-file, too: remove one of the two",
		"ManagedCluster two also names cluster two, so neither is used: remove one of the two", "Secret a/two also names cluster two, so neither is used: remove one of the two",
		"two entries of discovery select it: narrow one of the two", "two entries of discovery select it: narrow one of the two",
		"no token", "", "no name", "no name",
	}, problems)
}
