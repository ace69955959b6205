package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/devstack/devstacktest"
)

func TestUpPrintsTheAddressesAndStopsCleanly(t *testing.T) {
	devstacktest.NeedServers(t)
	t.Setenv("TMPDIR", t.TempDir())
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	output, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- up(ctx, "", out, os.Stderr)
		out.Close()
	}()

	complied := false
	kubeconfig, all := regexp.MustCompile(`cluster (\S+) +export KUBECONFIG=(\S+)`), regexp.MustCompile(`all, as contexts +export KUBECONFIG=(\S+)`)
	nodes, byContext := map[string]int{}, map[string]int{}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if lines.Text() == "Ctrl-C stops it." {
			interrupt()
		}
		if found := kubeconfig.FindStringSubmatch(lines.Text()); found != nil {
			nodes[found[1]] = countNodes(t, found[2], "")
			if found[1] == "hub" {
				complied = compliesWithAPolicy(t, found[2])
			}
		}
		if found := all.FindStringSubmatch(lines.Text()); found != nil {
			for cluster := range nodes {
				byContext[cluster] = countNodes(t, found[1], cluster)
			}
		}
	}

	require.NoError(t, <-ended)
	require.Equal(t, map[string]int{"hub": 0, "spoke-1": 4, "spoke-2": 4, "spoke-3": 4}, nodes)
	require.True(t, complied, "policies are simulated")
	require.Equal(t, nodes, byContext, "the documentation names clusters by context")
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

// countNodes counts the nodes of a cluster with this KUBECONFIG, by the name of a context or the current one.
func countNodes(t *testing.T, kubeconfig, name string) int {
	t.Helper()
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(kubeconfig)}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: name}).ClientConfig()
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	return len(nodes.Items)
}

// compliesWithAPolicy reports whether a ManagedCluster complies with a policy that is enforced on it. Its name is not that of a cluster of the stack.
func compliesWithAPolicy(t *testing.T, kubeconfig string) bool {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	hub, err := client.New(config, client.Options{})
	require.NoError(t, err)
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(`
{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: edge-1}}
---
apiVersion: policy.open-cluster-management.io/v1
kind: Policy
metadata: {namespace: default, name: kernel}
spec: {disabled: false, remediationAction: enforce, policy-templates: [{objectDefinition: {kind: ConfigurationPolicy, metadata: {name: kernel}, spec: {object-templates: []}}}]}
---
{apiVersion: apps.open-cluster-management.io/v1, kind: PlacementRule, metadata: {namespace: default, name: all}, spec: {}}
---
apiVersion: policy.open-cluster-management.io/v1
kind: PlacementBinding
metadata: {namespace: default, name: all}
placementRef: {apiGroup: apps.open-cluster-management.io, kind: PlacementRule, name: all}
subjects: [{apiGroup: policy.open-cluster-management.io, kind: Policy, name: kernel}]
`), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.NoError(t, hub.Create(t.Context(), object))
	}
	replica := &unstructured.Unstructured{}
	replica.SetAPIVersion("policy.open-cluster-management.io/v1")
	replica.SetKind("Policy")
	return assert.Eventually(t, func() bool {
		err := hub.Get(t.Context(), client.ObjectKey{Namespace: "edge-1", Name: "default.kernel"}, replica)
		compliant, _, _ := unstructured.NestedString(replica.Object, "status", "compliant")
		return err == nil && compliant == "Compliant"
	}, time.Minute, 100*time.Millisecond)
}
