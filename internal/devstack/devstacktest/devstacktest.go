// Package devstacktest runs tests on a local stack.
package devstacktest

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/internal/devstack"
)

// Servers and commands that tests start use one core each: many processes on few cores then take a fifth less CPU time.
func init() {
	if err := os.Setenv("GOMAXPROCS", "1"); err != nil {
		panic(err)
	}
}

// soakVariable lets tests run at their full length, as `make chaos` does.
const soakVariable = "SOAK"

// Soak reports whether tests run at their full length: with SOAK=1.
func Soak() bool { return os.Getenv(soakVariable) != "" }

// OnPostgreSQL reports whether tests run Temporal as in production, on PostgreSQL: with TEMPORAL_ON=postgresql, as `make e2e-postgres` does.
func OnPostgreSQL() bool { return os.Getenv("TEMPORAL_ON") == "postgresql" }

// NeedServers skips a test that needs the servers of the local stack with -short, which `make test-fast` sets.
func NeedServers(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the servers of the local stack")
	}
}

// MainNeedsServers is NeedServers for a TestMain that starts a stack for all tests of its package: it ends the program with -short. When targets are fuzzed,
// it runs them and ends the program: they need no servers, and each of their processes would start some.
func MainNeedsServers(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() != "" {
		os.Exit(m.Run())
	}
	if testing.Short() {
		fmt.Println("skipped: these tests need the servers of the local stack")
		os.Exit(0)
	}
}

// Start starts a stack for a test or benchmark and its subtests, and stops it afterwards. If a server exits during the test, the test fails with the
// last lines of its log.
func Start(t testing.TB, options devstack.Options) *devstack.Stack {
	t.Helper()
	NeedServers(t)
	if options.Output == nil {
		options.Output = os.Stderr
	}
	stack, err := devstack.Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stack.Stop()) })
	return stack
}

// Namespace creates a namespace for a test and returns its name.
func Namespace(t testing.TB, cluster *devstack.Cluster) string {
	t.Helper()
	namespace, err := cluster.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return namespace.Name
}

// FreeAddress reserves an address of the loopback interface until the end of the test.
func FreeAddress(t testing.TB) string {
	t.Helper()
	port, release, err := devstack.ReservePort()
	require.NoError(t, err)
	t.Cleanup(func() { _ = release() })
	return fmt.Sprintf("127.0.0.1:%d", port)
}
