package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// program is the compiled program.
var program string

func TestMain(m *testing.M) {
	devstacktest.MainNeedsServers(m)
	dir, err := os.MkdirTemp("", "drydock-standalone-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "drydock-standalone")
	build := exec.Command("go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w -X main.version=v1.2.3-test", "-o", program, ".")
	if output, err := build.CombinedOutput(); err != nil {
		fmt.Fprintln(os.Stderr, string(output))
		os.Exit(1)
	}
	code := m.Run()
	if stack != nil {
		_ = stack.Stop()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// standalone is a process of the program.
type standalone struct {
	t       *testing.T
	command *exec.Cmd
	ended   chan error
	logs    *devstacktest.Buffer
	// The addresses of its parts.
	temporal, webUI, page, health string
}

// start starts the program with a hub and a spoke.
func start(t *testing.T, data, kubeconfig string) *standalone {
	t.Helper()
	return startWith(t, data, "--kubeconfig", kubeconfig, "--hub-context", "hub", "--contexts", "spoke-1")
}

// startWith starts the program with these arguments, on ports that are free now.
func startWith(t *testing.T, data string, args ...string) *standalone {
	t.Helper()
	s := &standalone{t: t, logs: &devstacktest.Buffer{}, ended: make(chan error, 1), temporal: devstacktest.FreeAddress(t), webUI: devstacktest.FreeAddress(t), page: devstacktest.FreeAddress(t), health: devstacktest.FreeAddress(t)}
	s.command = exec.Command(program, append([]string{
		"--data", data, "--temporal-address", s.temporal, "--web-ui-address", s.webUI, "--page-address", s.page, "--health-address", s.health,
	}, args...)...)
	s.command.Env = append(os.Environ(), "TEMPORAL_TLS=true", "TEMPORAL_ADDRESS=127.0.0.1:1") // of another Temporal
	s.run()
	return s
}

// run runs the command until the end of the test.
func (s *standalone) run() {
	s.t.Helper()
	s.command.Stdout, s.command.Stderr = s.logs, s.logs
	require.NoError(s.t, s.command.Start())
	go func() { s.ended <- s.command.Wait() }()
	s.t.Cleanup(func() {
		_ = s.command.Process.Kill()
		if s.t.Failed() {
			s.t.Log(s.logs.String())
		}
	})
}

// awaitReady waits until the worker works.
func (s *standalone) awaitReady() {
	s.t.Helper()
	require.EventuallyWithT(s.t, func(c *assert.CollectT) {
		status, _ := get("http://" + s.health + "/readyz")
		assert.Equal(c, http.StatusOK, status)
	}, 5*time.Minute, 100*time.Millisecond)
}

// get returns the status and body of an answer; 0: there is none.
func get(url string) (int, string) {
	answer, err := http.Get(url)
	if err != nil {
		return 0, ""
	}
	defer answer.Body.Close()
	var body bytes.Buffer
	_, _ = body.ReadFrom(answer.Body)
	return answer.StatusCode, body.String()
}

// kill ends the process as the kernel does when memory is short.
func (s *standalone) kill() {
	s.t.Helper()
	require.NoError(s.t, s.command.Process.Kill())
	require.ErrorContains(s.t, <-s.ended, "killed")
}

// residentMiB is the memory that the process has now.
func (s *standalone) residentMiB() int {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.command.Process.Pid))
	require.NoError(s.t, err)
	kib, err := strconv.Atoi(regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindStringSubmatch(string(status))[1])
	require.NoError(s.t, err)
	return kib >> 10
}

// stack has the servers that the tests of this package share, once one of them has used clusters.
var stack *devstack.Stack

// clusters are a hub and a spoke without any CRD of Drydock.
func clusters(t *testing.T) (hub, spoke *devstack.Cluster) {
	t.Helper()
	if stack == nil {
		started, err := devstack.Start(context.Background(), devstack.Options{Output: os.Stderr, Clusters: []devstack.ClusterOptions{
			{Name: "hub", CRDs: []string{"deploy/crds/testing"}, ControlPlaneOnly: true},
			{Name: "spoke-1", Nodes: []devstack.Node{{Name: "worker-1"}, {Name: "worker-2"}}},
		}})
		require.NoError(t, err)
		stack = started
	}
	return stack.Cluster("hub"), stack.Cluster("spoke-1")
}

// kubeconfigOf has a context for each cluster, by its name.
func kubeconfigOf(t *testing.T, clusters ...*devstack.Cluster) string {
	t.Helper()
	merged := clientcmdapi.NewConfig()
	for _, cluster := range clusters {
		one, err := clientcmd.LoadFromFile(cluster.KubeconfigFile)
		require.NoError(t, err)
		context := one.Contexts[cluster.Name]
		merged.Clusters[cluster.Name], merged.AuthInfos[cluster.Name] = one.Clusters[context.Cluster], one.AuthInfos[context.AuthInfo]
		merged.Contexts[cluster.Name] = &clientcmdapi.Context{Cluster: cluster.Name, AuthInfo: cluster.Name}
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*merged, kubeconfig))
	return kubeconfig
}

// TestAppliedObjectsAreServedAndSurviveAKill: nothing is installed but this program. It is killed while a drain waits, and finishes it after its restart.
func TestAppliedObjectsAreServedAndSurviveAKill(t *testing.T) {
	hub, spoke := clusters(t)
	kubeconfig := kubeconfigOf(t, hub, spoke)
	data := filepath.Join(t.TempDir(), "data")
	s := start(t, data, kubeconfig)
	s.awaitReady()
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	objects, err := kubeclient.New(spoke.Config, kubeclient.Options{Scheme: scheme})
	require.NoError(t, err)
	labels := map[string]string{"app": "guarded"}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "guarded", Labels: labels},
		Spec:       corev1.PodSpec{NodeName: "worker-1", Containers: []corev1.Container{{Name: "app", Image: "registry.example.com/app:1"}}},
	}
	require.NoError(t, objects.Create(t.Context(), pod))
	guard := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "guard"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, MaxUnavailable: new(intstr.FromInt32(0))},
	}
	require.NoError(t, objects.Create(t.Context(), guard))
	maintenance := &maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "reboot"},
		Spec:       maintenancev1.NodeMaintenanceSpec{RequestorID: "test.example.com", NodeName: "worker-1", DrainSpec: &maintenancev1.DrainSpec{Force: true}},
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) { // the CRD is installed
		assert.NoError(c, kubeclient.IgnoreAlreadyExists(objects.Create(t.Context(), maintenance.DeepCopy())))
	}, 5*time.Minute, 100*time.Millisecond)
	awaitReason(t, objects, maintenance, "Draining")
	before := s.runOf(maintenance)
	backup := filepath.Join(t.TempDir(), "backup.db")
	require.Contains(t, runProgram(t, "backup", "--data", data, "--to", backup), "is a backup")

	s.kill()
	s = start(t, data, kubeconfig)
	s.awaitReady()
	require.Equal(t, before, s.runOf(maintenance), "the same run continues")
	require.NoError(t, objects.Delete(t.Context(), guard))
	awaitReason(t, objects, maintenance, "Ready")

	t.Logf("%d MiB with one maintenance", s.residentMiB())
	require.Less(t, s.residentMiB(), 400)
	require.EventuallyWithT(t, func(c *assert.CollectT) { // the page is read after the start
		code, page := get("http://" + s.page + "/")
		assert.Equal(c, http.StatusOK, code)
		assert.Contains(c, page, "worker-1")
		code, page = get("http://" + s.webUI + "/")
		assert.Equal(c, http.StatusOK, code)
		assert.Contains(c, strings.ToLower(page), "<!doctype html>")
	}, 5*time.Minute, 100*time.Millisecond)
	s.requireOwnNames()
	s.requireRetention()

	// The drain of the backup has ended since. What follows it waits until a person has looked.
	s.stop()
	require.Contains(t, runProgram(t, "restore", "--data", data, "--from", backup), "the database that was there is")
	s = start(t, data, kubeconfig)
	s.awaitReady()
	require.Equal(t, before, s.runOf(maintenance))
	server := s.dial()
	status := func(workflowID string, into any) error {
		answer, err := server.QueryWorkflow(t.Context(), workflowID, "", temporal.QueryStatus)
		if err != nil {
			return err
		}
		return answer.Get(into)
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		found := maintenancev1.NodeMaintenanceStatus{}
		if assert.NoError(c, status(temporal.NodeMaintenanceID("spoke-1", maintenance.Namespace, maintenance.Name), &found)) && assert.NotNil(c, found.Wait) {
			assert.Equal(c, emergency.ReasonHeld, found.Wait.Reason)
			assert.Contains(c, found.Wait.Message, "restored from the backup backup.db")
		}
	}, 5*time.Minute, 100*time.Millisecond)
	released, err := server.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: temporal.EmergencyStopID, UpdateName: temporal.UpdateRelease, Args: []any{emergency.Request{All: true}}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	require.NoError(t, err)
	require.NoError(t, released.Get(t.Context(), nil))
	awaitGone(t, objects, pod)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		found := maintenancev1.NodeMaintenanceStatus{}
		if assert.NoError(c, status(temporal.NodeMaintenanceID("spoke-1", maintenance.Namespace, maintenance.Name), &found)) {
			assert.Equal(c, maintenancev1.NodeReady, found.State)
		}
	}, 5*time.Minute, 100*time.Millisecond)
	s.stop()
}

// stop ends the process as a supervisor does.
func (s *standalone) stop() {
	s.t.Helper()
	require.NoError(s.t, s.command.Process.Signal(os.Interrupt))
	require.NoError(s.t, <-s.ended, s.logs)
}

// runProgram runs the program to its end, and returns what it prints.
func runProgram(t *testing.T, args ...string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	require.NoError(t, err, "%s", output)
	return string(output)
}

func TestWhatIsNoBackupIsNotRestored(t *testing.T) {
	data := t.TempDir()
	database, file := filepath.Join(data, databaseFile), filepath.Join(t.TempDir(), "backup.db")
	_, err := openDatabase(database)
	require.NoError(t, err)
	require.NoError(t, backUp(t.Context(), database, file))
	require.ErrorContains(t, backUp(t.Context(), database, file), "--to: "+file+" exists")
	before, err := os.ReadFile(database)
	require.NoError(t, err)

	_, err = restore(t.Context(), file+".missing", data)
	require.ErrorIs(t, err, os.ErrNotExist)
	cut, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, content := range [][]byte{[]byte("text"), cut[:len(cut)/2], {}} {
		require.NoError(t, os.WriteFile(file, content, 0o600))
		_, err = restore(t.Context(), file, data)
		require.Error(t, err)
	}
	now, err := os.ReadFile(database)
	require.NoError(t, err)
	require.Equal(t, before, now)
	require.NoFileExists(t, filepath.Join(data, restoredFile))
}

// requireOwnNames requires that the Web UI refuses a page of another site whose name resolves to this machine.
func (s *standalone) requireOwnNames() {
	s.t.Helper()
	for host, wanted := range map[string]int{s.webUI: http.StatusOK, "localhost:8233": http.StatusOK, "attacker.example.com:8233": http.StatusForbidden} {
		request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.webUI+"/api/v1/namespaces/default/workflows", nil)
		require.NoError(s.t, err)
		request.Host = host
		answer, err := http.DefaultClient.Do(request)
		require.NoError(s.t, err)
		require.NoError(s.t, answer.Body.Close())
		require.Equal(s.t, wanted, answer.StatusCode, host)
	}
}

func awaitReason(t *testing.T, objects kubeclient.Client, maintenance *maintenancev1.NodeMaintenance, reason string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		found := &maintenancev1.NodeMaintenance{}
		if !assert.NoError(c, objects.Get(t.Context(), kubeclient.ObjectKeyFromObject(maintenance), found)) {
			return
		}
		var reasons []string
		for _, condition := range found.Status.Conditions {
			reasons = append(reasons, condition.Reason)
		}
		assert.Contains(c, reasons, reason)
	}, 5*time.Minute, 100*time.Millisecond)
}

// dial connects to Temporal without any setting.
func (s *standalone) dial() client.Client {
	s.t.Helper()
	c, err := client.DialContext(s.t.Context(), client.Options{HostPort: s.temporal})
	require.NoError(s.t, err)
	s.t.Cleanup(c.Close)
	return c
}

// runOf is the run of the workflow of a maintenance.
func (s *standalone) runOf(maintenance *maintenancev1.NodeMaintenance) string {
	s.t.Helper()
	id := temporal.NodeMaintenanceID("spoke-1", maintenance.Namespace, maintenance.Name)
	described, err := s.dial().DescribeWorkflowExecution(s.t.Context(), id, "")
	require.NoError(s.t, err)
	return described.WorkflowExecutionInfo.Execution.RunId
}

func (s *standalone) requireRetention() {
	s.t.Helper()
	described, err := s.dial().WorkflowService().DescribeNamespace(s.t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	require.NoError(s.t, err)
	require.Equal(s.t, temporal.Retention, described.Config.WorkflowExecutionRetentionTtl.AsDuration())
}

func TestADirectoryHasOneProcess(t *testing.T) {
	data := t.TempDir()
	unlock, err := lock(data)
	require.NoError(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*clientcmdapi.NewConfig(), kubeconfig))
	s := start(t, data, kubeconfig)
	require.Error(t, <-s.ended)
	require.Contains(t, s.logs.String(), "error: --data: "+data+": another drydock-standalone uses it")
	unlock()
	again, err := lock(data)
	require.NoError(t, err)
	again()
}

// TestADatabaseIsCreatedWholeOrNotAtAll: what a killed process left of a new database is not used.
func TestADatabaseIsCreatedWholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "temporal.db")
	require.NoError(t, os.WriteFile(path+".new", []byte("half of a database"), 0o600))
	_, err := openDatabase(path)
	require.NoError(t, err)
	require.NoFileExists(t, path+".new")
	_, err = openDatabase(path)
	require.NoError(t, err, "it exists")

	other := filepath.Join(t.TempDir(), "temporal.db")
	require.NoError(t, os.WriteFile(other, []byte("no database"), 0o600))
	_, err = openDatabase(other)
	require.ErrorContains(t, err, "open the database "+other)
}

func TestAddressesThatAreNoneAreNamed(t *testing.T) {
	for _, flag := range []string{"--temporal-address", "--web-ui-address"} {
		for _, address := range []string{"localhost", "localhost:7233", "127.0.0.1:0", "127.0.0.1:x"} {
			cmd := newCommand()
			cmd.SetArgs([]string{"--data", t.TempDir(), "--contexts", "spoke-1", "--temporal-address", devstacktest.FreeAddress(t), flag, address})
			cmd.SetErr(&bytes.Buffer{})
			require.ErrorContains(t, cmd.ExecuteContext(context.Background()), flag+": ", address)
		}
	}
}
