// Package attack attacks Drydock as others can who share its clusters, its Temporal server and its network: tenants, a stolen worker of a spoke, a browser on a
// hostile page, a client of Temporal without rights. docs/security.md says what each may reach. The servers, the programs and the roles are those that users have.
package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/kube"
)

// limit is how long a test waits for a state. It is long enough for a busy machine.
const limit = 5 * time.Minute

// theFleet is shared by all tests: spoke-1 is served by the worker outside, and spoke-2 only by one inside it.
var (
	theFleet *fleet.Fleet
	// answering is the proxy between Temporal and the worker inside spoke-2.
	answering *answersOnly
	// insideWorker is that worker.
	insideWorker *devstack.Process
)

func TestMain(m *testing.M) {
	devstacktest.MainNeedsServers(m)
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	ctx := context.Background()
	f, err := fleet.Start(ctx, fleet.Options{Spokes: 2, Workers: 2, Inside: 1, Output: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	theFleet = f
	defer func() {
		if err := f.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	if err := errors.Join(startInside(ctx), createTenants(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// startInside starts the worker inside spoke-2 behind a proxy that refuses all that it has no right to. Its account also writes workload locks.
func startInside(ctx context.Context) (err error) {
	inside := insideSpoke()
	locks := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "drydock-lock-controller-inside"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "drydock-lock-controller"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: kube.SystemNamespace, Name: "drydock-initiator"}},
	}
	if _, err = inside.Client.RbacV1().ClusterRoleBindings().Create(ctx, locks, metav1.CreateOptions{}); err != nil {
		return err
	}
	if answering, err = startAnswersOnly(theFleet.Temporal.Address, inside.Name); err != nil {
		return err
	}
	if insideWorker, err = theFleet.AddInsideWorker(ctx, inside, answering.address); err != nil {
		return err
	}
	return insideWorker.Start(ctx)
}

func outsideSpoke() *devstack.Cluster { return theFleet.Spokes[0] }

func insideSpoke() *devstack.Cluster { return theFleet.Spokes[1] }

// The attacks on each spoke follow each other, and those on the two spokes run side by side. After them, with what they left behind, Drydock works on.
func TestDrydockUnderAttack(t *testing.T) {
	attacks := []struct {
		spoke, name string
		attack      func(*testing.T)
	}{
		{"outside", "a browser on a hostile page", hostilePage},
		{"outside", "a client of another Temporal namespace", clientOfAnotherNamespace},
		{"outside", "a tenant requests a Job that is not allowed", tenantRequestsForbiddenJob},
		{"outside", "rollouts request a Job that is not allowed", rolloutsRequestForbiddenJobs},
		{"outside", "a tenant requests values that break things", tenantRequestsBreakingValues},
		{"outside", "a tenant raises the budgets of the cluster", tenantRaisesBudgets},
		{"outside", "a tenant names receivers of notifications", tenantNamesReceivers},
		{"outside", "a health check redirects to another server", healthCheckRedirects},
		{"outside", "a tenant forges the marks of Jobs", tenantForgesMarksOfJobs},
		{"outside", "a tenant forges what Drydock saves", tenantForgesSavedState},
		{"outside", "the account of the hub worker is stolen", hubAccountIsStolen},
		{"outside", "a snapshot for the CLI expands to a gigabyte", snapshotIsABomb},
		{"inside", "a worker inside a cluster only polls and answers its own queue", workerInsideOnlyPollsAndAnswers},
		{"inside", "its ServiceAccount is stolen", serviceAccountIsStolen},
		{"inside", "its credentials for Temporal are stolen", temporalCredentialsAreStolen},
		{"inside", "a stolen worker answers its tasks with lies", stolenWorkerLies},
	}
	t.Run("attacks", func(t *testing.T) {
		for _, spoke := range []string{"outside", "inside"} {
			t.Run(spoke, func(t *testing.T) {
				t.Parallel()
				for _, one := range attacks {
					if one.spoke == spoke {
						t.Run(one.name, one.attack)
					}
				}
			})
		}
	})
	t.Run("Drydock works on", worksOn)
}

// command runs a drydock command, and returns its output and its error.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := theFleet.Command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); exited {
		err = fmt.Errorf("drydock %s: %w: %s", args[0], err, stderr.String())
	}
	return stdout.String(), err
}

// succeeds runs a drydock command that must succeed, and returns its output.
func succeeds(t *testing.T, args ...string) string {
	t.Helper()
	out, err := command(t, args...)
	require.NoError(t, err)
	return out
}

// file writes a file for a command.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
