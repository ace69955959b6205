// Package devstacktest runs tests on a local stack.
package devstacktest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/internal/devstack"
)

// Start starts a stack for one test (or benchmark) and its subtests, and stops it afterwards. A part that died
// meanwhile fails the test, with the end of its log.
func Start(t testing.TB, options devstack.Options) *devstack.Stack {
	t.Helper()
	if options.Output == nil {
		options.Output = os.Stderr
	}
	stack, err := devstack.Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stack.Stop()) })
	return stack
}

// Namespace creates a namespace of its own for a test and returns its name.
func Namespace(t testing.TB, cluster *devstack.Cluster) string {
	t.Helper()
	namespace, err := cluster.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return namespace.Name
}
