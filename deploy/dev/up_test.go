package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

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

	kubeconfig, all := regexp.MustCompile(`cluster (\S+) +export KUBECONFIG=(\S+)`), regexp.MustCompile(`all, as contexts +export KUBECONFIG=(\S+)`)
	nodes, byContext := map[string]int{}, map[string]int{}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if lines.Text() == "Ctrl-C stops it." {
			interrupt()
		}
		if found := kubeconfig.FindStringSubmatch(lines.Text()); found != nil {
			nodes[found[1]] = countNodes(t, found[2], "")
		}
		if found := all.FindStringSubmatch(lines.Text()); found != nil {
			for cluster := range nodes {
				byContext[cluster] = countNodes(t, found[1], cluster)
			}
		}
	}

	require.NoError(t, <-ended)
	require.Equal(t, map[string]int{"hub": 0, "spoke-1": 4, "spoke-2": 4, "spoke-3": 4}, nodes)
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
