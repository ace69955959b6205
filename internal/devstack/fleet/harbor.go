package fleet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/operators"
)

// harborCRDs are the CRDs of the operators that Harbor needs.
var harborCRDs = []string{
	"acid.zalan.do_postgresqls.yaml", "databases.spotahome.com_redisfailovers.yaml", "minio.min.io_tenants.yaml", "goharbor.io_harbors.yaml",
}

// SimulateHarborOperators prepares a spoke for HarborClusters, and runs the simulated operators that Harbor needs until Stop.
func (f *Fleet) SimulateHarborOperators(ctx context.Context, spoke *devstack.Cluster) (*operators.Operators, error) {
	var crds []string
	for _, crd := range harborCRDs {
		crds = append(crds, filepath.Join(testingCRDDir, crd))
	}
	if err := errors.Join(spoke.Apply(ctx, rbacDir+"/harbor.yaml"), spoke.InstallCRDs(crds...)); err != nil {
		return nil, err
	}
	return operators.Start(ctx, spoke.Config, operators.Options{Controllers: true})
}

// AddHarborNamespace creates a namespace of a spoke in which Drydock may manage a Harbor.
func (f *Fleet) AddHarborNamespace(ctx context.Context, spoke *devstack.Cluster, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := spoke.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := spoke.Client.RbacV1().RoleBindings(name).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "drydock-harbor"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "drydock-harbor-namespace"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: accountNamespace, Name: initiatorAccount}},
	}, metav1.CreateOptions{})
	return err
}

// AwaitHarbor waits until the status of a HarborCluster satisfies a condition. The error contains the last status.
func (f *Fleet) AwaitHarbor(ctx context.Context, spoke *devstack.Cluster, namespace, name, what string, matches func(goharborv1.HarborClusterStatus) bool) error {
	var hc, seen goharborv1.HarborCluster
	hc.Namespace, hc.Name = namespace, name
	what = fmt.Sprintf("HarborCluster %s/%s is %s", namespace, name, what)
	err := f.Await(ctx, spoke, what, []client.Object{&hc}, func(ctx context.Context, reader client.Reader) (bool, error) {
		err := reader.Get(ctx, client.ObjectKeyFromObject(&hc), &seen)
		return err == nil && matches(seen.Status), client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("%w; its status is %+v", err, seen.Status)
	}
	return nil
}
