package fleet

import (
	"context"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/operators"
)

// harborCRDs are the kinds of the operators that Harbor needs.
var harborCRDs = []string{
	"acid.zalan.do_postgresqls.yaml", "databases.spotahome.com_redisfailovers.yaml", "minio.min.io_tenants.yaml", "goharbor.io_harbors.yaml",
}

// PlayHarborOperators prepares a spoke for HarborClusters, and plays the operators that Harbor needs on it until they are stopped.
func (f *Fleet) PlayHarborOperators(ctx context.Context, spoke *devstack.Cluster) (*operators.Operators, error) {
	files := []string{rbacDir + "/harbor.yaml"}
	for _, crd := range harborCRDs {
		files = append(files, filepath.Join(testingCRDDir, crd))
	}
	if err := spoke.Apply(ctx, files...); err != nil {
		return nil, err
	}
	var played *operators.Operators
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		var err error
		played, err = operators.Start(ctx, spoke.Config, operators.Options{Controllers: true})
		if meta.IsNoMatchError(err) {
			return false, nil // the kinds are not served yet
		}
		return true, err
	})
	return played, err
}

// AddHarborNamespace makes a namespace of a spoke in which Drydock may keep a Harbor.
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
