package devstack

import (
	"context"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// ClusterOptions say what a cluster of the stack is made of.
type ClusterOptions struct {
	// Name is unique in the stack and a DNS label.
	Name string
	// CRDs are files or directories of CustomResourceDefinitions to install, relative to the repository's root.
	CRDs []string
	// Nodes are created, and ready when Start returns.
	Nodes []Node
	// ControlPlaneOnly leaves out the controllers, the scheduler and KWOK: objects can be kept, nothing acts on them.
	// It is enough for a hub.
	ControlPlaneOnly bool
}

// Cluster is a running Kubernetes cluster. Its control plane is real; its kubelets are played by KWOK.
type Cluster struct {
	Name string
	// Config and Client act as an administrator (user kubernetes-admin), without a rate limit.
	Config *rest.Config
	Client kubernetes.Interface
	// KubeconfigFile is the administrator's kubeconfig; its one context has the cluster's name.
	KubeconfigFile string
	// AuditLogFile holds what was asked of the API server, one JSON event (audit.k8s.io/v1) a line.
	AuditLogFile string

	// The cluster's servers. The last three are nil in a cluster that is ControlPlaneOnly.
	Etcd              *Process
	APIServer         *Process
	ControllerManager *Process
	Scheduler         *Process
	Kwok              *Process

	dir       string
	authority *authority
	crds      []string
	nodes     []Node
}

//go:embed config
var configFiles embed.FS

const (
	auditPolicyFile = "audit-policy.yaml"
	stagesFile      = "stages.yaml"
	schedulerFile   = "scheduler.yaml"
)

// Users of a cluster. The stack's own servers are administrators under names that the audit log tells apart.
const (
	adminUser             = "kubernetes-admin"
	controllerManagerUser = "system:kube-controller-manager"
	schedulerUser         = "system:kube-scheduler"
	kwokUser              = "kwok"
	adminGroup            = "system:masters"
)

// newCluster prepares a cluster's directory, certificates, kubeconfigs and processes. Nothing runs yet.
func (s *Stack) newCluster(options ClusterOptions) (*Cluster, error) {
	dir := filepath.Join(s.Dir, options.Name)
	c := &Cluster{
		Name:           options.Name,
		KubeconfigFile: filepath.Join(dir, "admin.kubeconfig"),
		AuditLogFile:   filepath.Join(dir, "audit.log"),
		dir:            dir,
		nodes:          options.Nodes,
	}
	for _, path := range options.CRDs {
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.root, path)
		}
		c.crds = append(c.crds, path)
	}
	port, err := s.ports.takeMany(5)
	if err != nil {
		return nil, fmt.Errorf("prepare cluster %s: %w", c.Name, err)
	}
	etcd, apiServer, controllers, scheduler, kwok := port[0], port[1], port[2], port[3], port[4]
	if err := c.prepare(apiServer); err != nil {
		return nil, fmt.Errorf("prepare cluster %s: %w", c.Name, err)
	}
	c.Etcd = s.process(c.Name, "etcd", c.etcdArgs(etcd), httpReady("http://"+loopback(etcd)+"/health"))
	c.APIServer = s.process(c.Name, "kube-apiserver", c.apiServerArgs(apiServer, etcd), c.apiServerReady)
	if options.ControlPlaneOnly {
		return c, nil
	}
	c.ControllerManager = s.process(c.Name, "kube-controller-manager", c.controllerManagerArgs(controllers), httpReady("https://"+loopback(controllers)+"/healthz"))
	c.Scheduler = s.process(c.Name, "kube-scheduler", c.schedulerArgs(scheduler), httpReady("https://"+loopback(scheduler)+"/readyz"))
	c.Kwok = s.process(c.Name, "kwok", c.kwokArgs(kwok), httpReady("http://"+loopback(kwok)+"/healthz"))
	return c, nil
}

// prepare writes the files that the cluster's servers read, and makes the administrator's client.
func (c *Cluster) prepare(apiServerPort int) error {
	var err error
	if c.authority, err = newAuthority(c.Name); err != nil {
		return err
	}
	if err := c.authority.write(c.dir); err != nil {
		return err
	}
	for _, name := range []string{auditPolicyFile, stagesFile, schedulerFile} {
		content, err := configFiles.ReadFile("config/" + name)
		if err != nil {
			return err
		}
		text := strings.ReplaceAll(string(content), "KUBECONFIG", c.file(schedulerUser+".kubeconfig"))
		if err := os.WriteFile(c.file(name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	c.Config = &rest.Config{Host: "https://" + loopback(apiServerPort)}
	if c.Config, err = c.UserConfig(adminUser, adminGroup); err != nil {
		return err
	}
	if err := WriteKubeconfig(c.KubeconfigFile, c.Name, c.Config); err != nil {
		return err
	}
	for _, user := range []string{controllerManagerUser, schedulerUser, kwokUser} {
		config, err := c.UserConfig(user, adminGroup)
		if err != nil {
			return err
		}
		if err := WriteKubeconfig(c.file(user+".kubeconfig"), c.Name, config); err != nil {
			return err
		}
	}
	c.Client, err = kubernetes.NewForConfig(c.Config)
	return err
}

// start runs the servers in the order they need each other, and returns when the cluster does its work.
func (c *Cluster) start(ctx context.Context) error {
	if err := c.Etcd.Start(ctx); err != nil {
		return err
	}
	if err := c.APIServer.Start(ctx); err != nil {
		return err
	}
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return c.installCRDs() })
	for _, process := range []*Process{c.ControllerManager, c.Scheduler, c.Kwok} {
		if process != nil {
			work.Go(func() error { return process.Start(ctx) })
		}
	}
	if len(c.nodes) > 0 {
		work.Go(func() error { return c.AddNodes(ctx, c.nodes...) })
	}
	return work.Wait()
}

func (c *Cluster) installCRDs() error {
	if len(c.crds) == 0 {
		return nil
	}
	_, err := envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{Paths: c.crds, ErrorIfPathMissing: true})
	if err != nil {
		return fmt.Errorf("install the CRDs of cluster %s: %w", c.Name, err)
	}
	return nil
}

// processes are the cluster's servers, each before those it needs.
func (c *Cluster) processes() []*Process {
	if c.Kwok == nil {
		return []*Process{c.APIServer, c.Etcd}
	}
	return []*Process{c.Kwok, c.Scheduler, c.ControllerManager, c.APIServer, c.Etcd}
}

func (c *Cluster) file(name string) string { return filepath.Join(c.dir, name) }

func (c *Cluster) etcdArgs(port int) []string {
	url := "http://" + loopback(port)
	return []string{
		"--data-dir=" + c.file("etcd"),
		"--listen-client-urls=" + url,
		"--advertise-client-urls=" + url,
		"--listen-peer-urls=http://127.0.0.1:0", // no peers
		"--unsafe-no-fsync",                     // the data need not survive a power cut
		"--log-level=warn",
	}
}

func (c *Cluster) apiServerArgs(port, etcdPort int) []string {
	return []string{
		"--etcd-servers=http://" + loopback(etcdPort),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none", // no pod will ever connect to it
		fmt.Sprintf("--secure-port=%d", port),
		"--service-cluster-ip-range=10.0.0.0/24",
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
		"--audit-log-maxsize=4096", // megabytes before a rotation that tests would have to follow
	}
}

// apiServerReady looks at /readyz as the administrator, so that certificates and RBAC are proven as well.
func (c *Cluster) apiServerReady(ctx context.Context) error {
	return c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error()
}

// controllers are those that the objects of a rollout depend on; the others would only cost memory.
var controllers = []string{
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
		"--config=" + c.file(schedulerFile),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + c.file(serverCertFile),
		"--tls-private-key-file=" + c.file(serverKeyFile),
	}
}

func (c *Cluster) kwokArgs(port int) []string {
	return []string{
		"--kubeconfig=" + c.file(kwokUser+".kubeconfig"),
		"--config=" + c.file(stagesFile),
		"--manage-all-nodes",
		"--node-lease-duration-seconds=40",
		"--server-address=" + loopback(port),
	}
}

// httpReady looks at a health endpoint. Who answers is not in doubt on our own port, so certificates are not checked.
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
