// Package fleet runs Drydock on the local stack as users do: one hub, some spokes, the worker with the shipped RBAC, and the CLI.
package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/allow"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
)

const (
	crdDir        = "deploy/crds"
	testingCRDDir = "deploy/crds/testing"
	rbacDir       = "deploy/rbac"
)

// Every ManagedCluster of a fleet has the label EnvironmentLabel with the value Environment.
const (
	EnvironmentLabel = "environment"
	Environment      = "demo"
)

// Options configure a fleet.
type Options struct {
	// Spokes is the number of clusters that the hub manages: spoke-1, spoke-2 and so on.
	Spokes int
	// Workers is the number of worker nodes of a spoke, in addition to its control-plane node.
	Workers int
	// Temporal configures the Temporal server.
	Temporal devstack.TemporalOptions
	// Inside is the number of spokes, the last ones, that only workers inside them serve. AddInsideWorker adds these.
	Inside int
	// WorkerArguments are more arguments of the first worker.
	WorkerArguments []string
	// WorkerEnv has further environment variables of all workers, as NAME=VALUE.
	WorkerEnv []string
	// Proxies puts a fault proxy between the workers and each cluster.
	Proxies bool
	// Output gets progress messages.
	Output io.Writer
}

// Fleet is a running fleet. Stop of the embedded stack ends all of it.
type Fleet struct {
	*devstack.Stack
	Hub    *devstack.Cluster
	Spokes []*devstack.Cluster
	// Worker is Drydock's worker. It may be stopped, killed and started again. WorkerHealth is its --health-address.
	Worker       *devstack.Process
	WorkerHealth string

	options Options
	root    string
	bin     string
	watched *kube.Clusters
	proxies map[string]*faultproxy.Proxy
	// clustersFile is the clusters file of the workers, and clusters its content.
	clustersFile string
	clusters     kube.ClustersFile
	workers      int
}

// Start builds Drydock and starts a fleet: servers, ManagedClusters, RBAC, search attributes, worker.
func Start(ctx context.Context, options Options) (*Fleet, error) {
	root, err := devstack.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	f := &Fleet{options: options, root: root, bin: filepath.Join(root, "bin")}
	if err := f.buildAndStart(ctx); err != nil {
		return nil, err
	}
	f.Hub = f.Cluster(hubName)
	f.Spokes = f.Clusters()[1:]
	f.watchAll()
	if err := f.startProxies(); err != nil {
		return nil, errors.Join(err, f.Stop())
	}
	if err := f.setUp(ctx); err != nil {
		return nil, errors.Join(err, f.Stop())
	}
	return f, nil
}

const hubName = "hub"

func (o Options) stack() devstack.Options {
	stack := devstack.Options{
		Clusters: []devstack.ClusterOptions{{Name: hubName, CRDs: []string{crdDir, testingCRDDir}, ControlPlaneOnly: true}},
		Temporal: &o.Temporal,
		Output:   o.Output,
	}
	for i := range o.Spokes {
		stack.Clusters = append(stack.Clusters, devstack.ClusterOptions{
			Name: fmt.Sprintf("spoke-%d", i+1), CRDs: append([]string{crdDir}, olmCRDs()...), Nodes: devstack.Nodes(1, o.Workers),
		})
	}
	return stack
}

// olmCRDs are the CRDs of Operator Lifecycle Manager that every spoke has.
func olmCRDs() []string {
	return []string{filepath.Join(testingCRDDir, "operators.coreos.com_subscriptions.yaml"), filepath.Join(testingCRDDir, "operators.coreos.com_installplans.yaml")}
}

// buildAndStart builds Drydock while the servers are built and started.
func (f *Fleet) buildAndStart(ctx context.Context) error {
	starting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	built := make(chan error, 1)
	go func() {
		err := f.build(ctx)
		if err != nil {
			cancel(err)
		}
		built <- err
	}()
	stack, err := devstack.Start(starting, f.options.stack())
	if buildErr := <-built; buildErr != nil {
		if stack != nil {
			err = stack.Stop()
		}
		return errors.Join(buildErr, err)
	}
	f.Stack = stack
	return err
}

// build builds bin/drydock and bin/drydock-worker as users do.
func (f *Fleet) build(ctx context.Context) error {
	fmt.Fprintln(f.options.Output, "building drydock and drydock-worker")
	build := exec.CommandContext(ctx, "make", "--silent", "build")
	build.Dir = f.root
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("make build: %w\n%s", err, output)
	}
	return nil
}

func (f *Fleet) setUp(ctx context.Context) error {
	var group errgroup.Group
	group.Go(func() error { return f.registerSpokes(ctx) })
	group.Go(func() error {
		return f.Hub.Apply(ctx, rbacDir+"/hub.yaml", rbacDir+"/manifestworks.yaml", rbacDir+"/views.yaml", rbacDir+"/cluster-secrets.yaml", rbacDir+"/managed-cluster-secrets.yaml")
	})
	for _, spoke := range f.Spokes {
		group.Go(func() error {
			return spoke.Apply(ctx, rbacDir+"/initiator.yaml", rbacDir+"/lock-controller.yaml", rbacDir+"/preparation.yaml", rbacDir+"/node-annotations.yaml", rbacDir+"/health-checks.yaml", rbacDir+"/install-plans.yaml")
		})
	}
	group.Go(func() error { return f.Run(ctx, io.Discard, "setup") })
	if err := group.Wait(); err != nil {
		return err
	}
	return f.startWorker(ctx)
}

func (f *Fleet) startProxies() error {
	f.proxies = map[string]*faultproxy.Proxy{}
	if !f.options.Proxies {
		return nil
	}
	for _, cluster := range f.Clusters() {
		proxy, err := faultproxy.Start(cluster.Config)
		if err != nil {
			return err
		}
		f.proxies[cluster.Name] = proxy
	}
	return nil
}

// Proxy returns the proxy between the workers and a cluster; nil without Options.Proxies. It ends with the program that started the fleet.
func (f *Fleet) Proxy(cluster *devstack.Cluster) *faultproxy.Proxy { return f.proxies[cluster.Name] }

// watchAll prepares watches of all clusters as their administrator.
func (f *Fleet) watchAll() {
	configs := map[string]*rest.Config{}
	for _, cluster := range f.Clusters() {
		configs[cluster.Name] = cluster.Config
	}
	f.watched = kube.New(kube.FromConfigs(nil, configs), kube.Options{})
}

// registerSpokes creates a ManagedCluster on the hub for every spoke, and lets the placements of rollouts select all clusters.
func (f *Fleet) registerSpokes(ctx context.Context) error {
	client, err := dynamic.NewForConfig(f.Hub.Config)
	if err != nil {
		return err
	}
	managedClusters := client.Resource(schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"})
	for _, spoke := range f.Spokes {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cluster.open-cluster-management.io/v1",
			"kind":       "ManagedCluster",
			"metadata":   map[string]any{"name": spoke.Name, "labels": map[string]any{"name": spoke.Name, EnvironmentLabel: Environment}},
			"spec":       map[string]any{"hubAcceptsClient": true},
		}}
		if _, err := managedClusters.Create(ctx, object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create ManagedCluster %s: %w", spoke.Name, err)
		}
	}
	binding := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": policies.GlobalSet}, "spec": map[string]any{"clusterSet": policies.GlobalSet}}}
	binding.SetGroupVersionKind(policies.SetBindings)
	setBindings := client.Resource(policies.SetBindings.GroupVersion().WithResource("managedclustersetbindings")).Namespace("default")
	if _, err := setBindings.Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ManagedClusterSetBinding %s: %w", policies.GlobalSet, err)
	}
	return nil
}

// The ServiceAccounts of the worker in deploy/rbac: one on the hub, two on a cluster, because the two roles of workload locks have
// separate credentials.
const (
	accountNamespace      = "drydock-system"
	hubAccount            = "drydock-hub"
	initiatorAccount      = "drydock-initiator"
	lockControllerAccount = "drydock-lock-controller"
)

// images of the Jobs that the worker may run. No container runs.
const images = "registry.example.com/*"

// webhookSecret is the file with the secret of the receivers of notifications.
const webhookSecret = "webhook-secret"

// startWorker writes a clusters file with the ServiceAccounts of the workers, and starts the first worker.
func (f *Fleet) startWorker(ctx context.Context) error {
	hub, err := f.access(ctx, f.Hub, hubAccount)
	if err != nil {
		return err
	}
	file := kube.ClustersFile{Hub: hub, Allow: allow.List{
		Jobs: []allow.Job{{Images: []string{images}}}, PreparationImages: []string{images}, HealthCheckHosts: []string{"127.0.0.1:*"},
		// The name of the second one has a private address, so it gets nothing.
		Webhooks: []allow.Webhook{{Host: "127.0.0.1:*", SecretFile: webhookSecret, PrivateAddresses: true}, {Host: "localhost:*", SecretFile: webhookSecret}},
	}}
	if err := os.WriteFile(filepath.Join(f.Dir, webhookSecret), []byte(rand.Text()), 0o600); err != nil {
		return err
	}
	for i, spoke := range f.Spokes {
		if i >= len(f.Spokes)-f.options.Inside {
			file.Clusters = append(file.Clusters, kube.ClusterEntry{Name: spoke.Name, InClusterWorker: true})
			continue
		}
		initiator, err := f.access(ctx, spoke, initiatorAccount)
		if err != nil {
			return err
		}
		lockController, err := f.access(ctx, spoke, lockControllerAccount)
		if err != nil {
			return err
		}
		file.Clusters = append(file.Clusters, kube.ClusterEntry{Name: spoke.Name, KubeconfigContext: *initiator, LockController: lockController})
	}
	f.clusters = file
	f.clustersFile = filepath.Join(f.Dir, "clusters.yaml")
	if err := f.AddClusters(); err != nil {
		return err
	}
	if f.Worker, err = f.AddWorker(f.options.WorkerArguments...); err != nil {
		return err
	}
	return f.Worker.Start(ctx)
}

// AddClusters adds clusters to the clusters file, which workers read when they start.
func (f *Fleet) AddClusters(entries ...kube.ClusterEntry) error {
	f.clusters.Clusters = append(f.clusters.Clusters, entries...)
	content, err := yaml.Marshal(f.clusters)
	if err != nil {
		return err
	}
	return os.WriteFile(f.clustersFile, content, 0o600)
}

// AddWorker adds another worker, with more arguments, without starting it.
func (f *Fleet) AddWorker(more ...string) (*devstack.Process, error) {
	return f.addWorker(append([]string{"--address", f.Temporal.Address, "--backup-image", "registry.example.com/backup:1.0", "--update-graph-hosts", "127.0.0.1:*", "--node-annotations"}, more...)...)
}

// AddInsideWorker adds a worker that serves a spoke as one inside it, with more arguments, without starting it. address is that of Temporal.
func (f *Fleet) AddInsideWorker(ctx context.Context, spoke *devstack.Cluster, address string, more ...string) (*devstack.Process, error) {
	initiator, err := f.access(ctx, spoke, initiatorAccount)
	if err != nil {
		return nil, err
	}
	return f.addWorker(append([]string{"--address", address, "--cluster", spoke.Name, "--kubeconfig", initiator.Kubeconfig}, more...)...)
}

func (f *Fleet) addWorker(args ...string) (*devstack.Process, error) {
	port, err := f.ReservePort()
	if err != nil {
		return nil, err
	}
	name, health := "drydock-worker", fmt.Sprintf("127.0.0.1:%d", port)
	if f.workers++; f.workers > 1 {
		name = fmt.Sprintf("%s-%d", name, f.workers)
	} else {
		f.WorkerHealth = health
	}
	return f.Add(devstack.Program{
		Name: name, Path: filepath.Join(f.bin, "drydock-worker"), ReadyURL: "http://" + health + "/readyz",
		Args: append([]string{"--clusters", f.clustersFile, "--health-address", health}, args...), Env: f.options.WorkerEnv,
	})
}

// access writes the kubeconfig of a ServiceAccount.
func (f *Fleet) access(ctx context.Context, cluster *devstack.Cluster, account string) (*kube.KubeconfigContext, error) {
	config, err := cluster.ServiceAccountConfig(ctx, accountNamespace, account)
	if err != nil {
		return nil, err
	}
	if proxy := f.Proxy(cluster); proxy != nil {
		config = proxy.Config(config)
	}
	path := filepath.Join(f.Dir, cluster.Name+"-"+account+".kubeconfig")
	return &kube.KubeconfigContext{Kubeconfig: path, Context: cluster.Name}, devstack.WriteKubeconfig(path, cluster.Name, config)
}

// Command returns a drydock command of the administrator of the hub.
func (f *Fleet) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(f.bin, "drydock"), args...)
	cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+f.Temporal.Address, "KUBECONFIG="+f.Hub.KubeconfigFile)
	return cmd
}

// Run runs a drydock command. An error contains its standard error.
func (f *Fleet) Run(ctx context.Context, out io.Writer, args ...string) error {
	cmd := f.Command(ctx, args...)
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = out, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("drydock %s: %w: %s", args[0], err, stderr.String())
	}
	return nil
}
