package devstack

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// ClusterOptions configure a cluster of the stack.
type ClusterOptions struct {
	// Name is unique in the stack and a DNS label.
	Name string
	// CRDs are files or directories of CustomResourceDefinitions, relative to the root of the repository.
	CRDs []string
	// Nodes are ready when Start returns.
	Nodes []Node
	// ControlPlaneOnly omits the controllers, the scheduler and KWOK. The cluster only stores objects, which is enough for a hub.
	ControlPlaneOnly bool
}

// Cluster is a running Kubernetes cluster. Its control plane is real; KWOK simulates its kubelets.
type Cluster struct {
	Name string
	// Config and Client act as an administrator (user kubernetes-admin), without a rate limit.
	Config *rest.Config
	Client kubernetes.Interface
	// KubeconfigFile is the kubeconfig of the administrator. Its only context has the name of the cluster.
	KubeconfigFile string
	// AuditLogFile has the requests to the API server, one JSON event (audit.k8s.io/v1) per line.
	AuditLogFile string
	// ContainerLogFile is the log that the simulated kubelet serves for every container, in the format of the container runtime interface
	// ("TIME stdout F line"); a test may write to it.
	ContainerLogFile string

	// The servers of the cluster. The last three are nil if it is ControlPlaneOnly.
	Etcd              *Process
	APIServer         *Process
	ControllerManager *Process
	Scheduler         *Process
	Kwok              *Process

	url       string // of the API server
	dir       string
	root      string // of the repository
	authority *Authority
	crds      []string
	nodes     []Node
}

//go:embed config
var configFiles embed.FS

const (
	auditPolicyFile = "audit-policy.yaml"
	kwokFile        = "kwok.yaml"
)

// Users of a cluster. The servers of the stack are administrators with distinct names in the audit log.
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
		AuditLogFile:   filepath.Join(dir, "audit.log"), ContainerLogFile: filepath.Join(dir, "container.log"),
		dir:   dir,
		root:  s.root,
		nodes: options.Nodes,
	}
	for _, path := range options.CRDs {
		c.crds = append(c.crds, c.inRepository(path))
	}
	port, err := s.ports.reserveMany(5)
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

// prepare writes the files of the cluster's servers, and creates the administrator's client.
func (c *Cluster) prepare(apiServerPort int) error {
	var err error
	if c.authority, err = NewAuthority(c.Name); err != nil {
		return err
	}
	if err := c.authority.write(c.dir); err != nil {
		return err
	}
	for _, name := range []string{auditPolicyFile, kwokFile} {
		content, err := configFiles.ReadFile("config/" + name)
		if err != nil {
			return err
		}
		content = bytes.ReplaceAll(content, []byte("CONTAINER_LOG"), []byte(strconv.Quote(c.ContainerLogFile)))
		if err := os.WriteFile(c.file(name), content, 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(c.ContainerLogFile, nil, 0o644); err != nil {
		return err
	}
	c.url = "https://" + loopback(apiServerPort)
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

// start starts the servers in the order of their dependencies, and returns when the cluster is ready.
func (c *Cluster) start(ctx context.Context) error {
	if err := c.Etcd.Start(ctx); err != nil {
		return err
	}
	if err := c.APIServer.Start(ctx); err != nil {
		return err
	}
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return c.InstallCRDs(c.crds...) })
	for _, process := range []*Process{c.ControllerManager, c.Scheduler, c.Kwok} {
		if process != nil {
			work.Go(func() error { return process.Start(ctx) })
		}
	}
	if len(c.nodes) > 0 {
		work.Go(func() error {
			// Nodes become ready only with KWOK and the controllers, which may still be built.
			for _, process := range []*Process{c.ControllerManager, c.Kwok} {
				if _, err := process.path(ctx); err != nil {
					return err
				}
			}
			return c.AddNodes(ctx, c.nodes...)
		})
	}
	return work.Wait()
}

// crdsServed is how long the API server may take to serve new CRDs. It is long enough for a busy machine.
const crdsServed = 5 * time.Minute

// InstallCRDs installs the CRDs of YAML files or directories, relative to the root of the repository, and waits until they are served.
func (c *Cluster) InstallCRDs(paths ...string) error {
	if len(paths) == 0 {
		return nil
	}
	options := envtest.CRDInstallOptions{ErrorIfPathMissing: true, MaxTime: crdsServed}
	for _, path := range paths {
		options.Paths = append(options.Paths, c.inRepository(path))
	}
	if _, err := envtest.InstallCRDs(c.Config, options); err != nil {
		return fmt.Errorf("install the CRDs of cluster %s: %w", c.Name, err)
	}
	return nil
}

// processes are the cluster's servers, each before its dependencies.
func (c *Cluster) processes() []*Process {
	if c.Kwok == nil {
		return []*Process{c.APIServer, c.Etcd}
	}
	return []*Process{c.Kwok, c.Scheduler, c.ControllerManager, c.APIServer, c.Etcd}
}

func (c *Cluster) file(name string) string { return filepath.Join(c.dir, name) }

// inRepository resolves a path relative to the root of the repository.
func (c *Cluster) inRepository(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.root, path)
}
