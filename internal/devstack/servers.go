package devstack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// The command lines and readiness checks of the servers of a cluster.

func (c *Cluster) etcdArgs(port int) []string {
	url := "http://" + loopback(port)
	return []string{
		"--data-dir=" + c.file("etcd"),
		"--listen-client-urls=" + url,
		"--advertise-client-urls=" + url,
		"--listen-peer-urls=http://127.0.0.1:0", // no peers
		"--unsafe-no-fsync",                     // the data may be lost in a power failure
		"--log-level=warn",
	}
}

func (c *Cluster) apiServerArgs(port, etcdPort int) []string {
	return []string{
		"--etcd-servers=http://" + loopback(etcdPort),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none", // no pod connects to it
		fmt.Sprintf("--secure-port=%d", port),
		"--service-cluster-ip-range=10.0.0.0/24",
		"--kubelet-preferred-address-types=InternalIP", // node names do not resolve
		"--tls-cert-file=" + c.file(serverCertFile),
		"--tls-private-key-file=" + c.file(serverKeyFile),
		"--client-ca-file=" + c.file(caFile),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.file(serviceAccountKeyFile),
		"--service-account-signing-key-file=" + c.file(serviceAccountKeyFile),
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		"--profiling=false",
		"--audit-policy-file=" + c.file(auditPolicyFile),
		"--audit-log-path=" + c.AuditLogFile,
		"--audit-log-maxsize=4096", // megabytes, so that the log is never rotated
	}
}

// apiServerReady requests /readyz as the administrator, which also checks certificates and RBAC.
func (c *Cluster) apiServerReady(ctx context.Context) error {
	return c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error()
}

// controllers are the controllers that rollouts depend on. Omitting the others saves memory.
var controllers = []string{
	"clusterrole-aggregation-controller",
	"daemonset-controller",
	"deployment-controller",
	"disruption-controller",
	"garbage-collector-controller",
	"job-controller",
	"namespace-controller",
	"node-lifecycle-controller",
	"pod-garbage-collector-controller",
	"replicaset-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"statefulset-controller",
	"taint-eviction-controller",
	"ttl-after-finished-controller",
}

func (c *Cluster) controllerManagerArgs(port int) []string {
	return []string{
		"--kubeconfig=" + c.file(controllerManagerUser+".kubeconfig"),
		"--controllers=" + strings.Join(controllers, ","),
		"--service-account-private-key-file=" + c.file(serviceAccountKeyFile),
		"--root-ca-file=" + c.file(caFile),
		"--leader-elect=false",
		"--profiling=false",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + c.file(serverCertFile),
		"--tls-private-key-file=" + c.file(serverKeyFile),
	}
}

func (c *Cluster) schedulerArgs(port int) []string {
	return []string{
		"--kubeconfig=" + c.file(schedulerUser+".kubeconfig"),
		"--leader-elect=false",
		"--profiling=false",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + c.file(serverCertFile),
		"--tls-private-key-file=" + c.file(serverKeyFile),
	}
}

func (c *Cluster) kwokArgs(port int) []string {
	return []string{
		"--kubeconfig=" + c.file(kwokUser+".kubeconfig"),
		"--config=" + c.file(kwokFile),
		"--manage-all-nodes",
		"--node-lease-duration-seconds=40",
		"--node-ip=127.0.0.1",
		"--cidr=10.128.0.0/14",
		"--v=WARN",
		"--server-address=" + loopback(port),
		fmt.Sprintf("--node-port=%d", port),
		"--tls-cert-file=" + c.file(serverCertFile),
		"--tls-private-key-file=" + c.file(serverKeyFile),
	}
}

// httpReady requests a health endpoint on our own port, so it does not check certificates.
func httpReady(url string) func(context.Context) error {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s: %s", url, response.Status, strings.TrimSpace(string(body)))
		}
		return nil
	}
}
