package snapshot_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/snapshot"
)

func TestObjectsBelongToAHarborClusterInAnyOrder(t *testing.T) {
	tenant := func(name, cluster string) string {
		return "{apiVersion: minio.min.io/v2, kind: Tenant, metadata: {namespace: registry, name: " + name + ", ownerReferences: [{apiVersion: goharbor.io/v1beta1, kind: HarborCluster, name: " + cluster + ", uid: u, controller: true}]}}"
	}
	hc := &goharborv1.HarborCluster{}
	hc.Namespace, hc.Name = "registry", "main"
	hc.Spec.Storage.Kind, hc.Spec.Storage.Spec.MinIO = goharborv1.MinIO, &goharborv1.MinIOSpec{}
	for _, order := range [][]string{
		{tenant("a", "other"), tenant("b", "main"), tenant("c", "main")},
		{tenant("c", "main"), tenant("b", "main"), tenant("a", "other")},
	} {
		file, err := snapshot.Parse("f", []byte(strings.Join(order, "\n---\n")))
		require.NoError(t, err)
		observed, err := snapshot.Harbor(t.Context(), file, hc)
		require.NoError(t, err)
		require.Equal(t, "b", observed.Tenant.GetName())
	}
}
