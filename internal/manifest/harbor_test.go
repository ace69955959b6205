package manifest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/manifest"
)

// harborCluster reads a valid HarborCluster after changes to its text.
func harborCluster(t *testing.T, oldnew ...string) ([]goharborv1.HarborCluster, error) {
	t.Helper()
	text, err := os.ReadFile("../harbor/testdata/incluster.yaml")
	require.NoError(t, err)
	objects, err := manifest.Decode("f", []byte(strings.NewReplacer(oldnew...).Replace(string(text))))
	if err != nil {
		return nil, err
	}
	return []goharborv1.HarborCluster{*objects[0].(*goharborv1.HarborCluster)}, nil
}

func TestAHarborClusterHasTheDefaultsOfItsCRD(t *testing.T) {
	read, err := harborCluster(t, "server: {replicas: 3, storage: 2Gi, resources: {requests: {cpu: 100m}}}", "operatorVersion: 1.0.1", "        operatorVersion: 1.0.0\n", "", "        sentinel: {replicas: 3}\n", "")
	require.NoError(t, err)
	spec := read[0].Spec
	require.EqualValues(t, 900, *spec.ProgressDeadlineSeconds)
	require.Equal(t, goharborv1.RetainData, spec.DeletionPolicy)
	require.Equal(t, "15", spec.Database.Spec.Zalando.Version)
	require.EqualValues(t, 1, *spec.Cache.Spec.RedisFailover.Server.Replicas)
	require.Equal(t, "1Gi", spec.Cache.Spec.RedisFailover.Server.Storage)
	require.JSONEq(t, `{"storage": {}}`, string(spec.Trivy.Raw), "Harbor's own settings stay unchanged")
}

func TestAnInvalidHarborClusterIsReportedWithItsPath(t *testing.T) {
	for _, test := range []struct {
		name, line string
		oldnew     []string
	}{
		{"a kind without its settings", "spec.cache: Invalid value: spec.redis must be set for kind Redis", []string{"kind: RedisFailover", "kind: Redis"}},
		{"a database of another kind", "spec.database: Invalid value: spec.postgresql must be set for kind PostgreSQL", []string{"kind: Zlando/PostgreSQL", "kind: PostgreSQL"}},
		{"storage of another kind", "spec.storage: Invalid value: spec.s3 must be set for kind S3", []string{"kind: MinIO", "kind: S3"}},
		{"an unknown kind", `spec.storage.kind: Unsupported value: "Tape"`, []string{"kind: MinIO", "kind: Tape"}},
		{"too few volumes", "spec.storage.spec.minIO: Invalid value: replicas * volumesPerServer must be 4 or more", []string{"volumesPerServer: 2", "volumesPerServer: 1"}},
		{"an invalid size", `spec.database.spec.zlandoPostgreSql.storage: Invalid value: "much"`, []string{"storage: 10Gi\n        storageClass", "storage: much\n        storageClass"}},
		{"a deadline of zero", "spec.progressDeadlineSeconds: Invalid value: 0", []string{"version: 2.5.0", "version: 2.5.0\n  progressDeadlineSeconds: 0"}},
		{"an unknown policy", `spec.deletionPolicy: Unsupported value: "Burn"`, []string{"version: 2.5.0", "version: 2.5.0\n  deletionPolicy: Burn"}},
		{"an invalid version", `spec.version: Invalid value: "new"`, []string{"version: 2.5.0", "version: new"}},
		{
			"a redirect without ingress", "spec.storage: Invalid value: spec.redirect.expose must have the ingress to which clients are sent",
			[]string{"        expose: {ingress: {host: MinIO.harbor.example, ingressClassName: nginx}, tls: {certificateRef: public}}\n", ""},
		},
		{
			"an older redirect without ingress", "spec.storage: Invalid value: spec.minIO.redirect.expose must have the ingress",
			[]string{
				"      redirect:\n        enable: true\n        expose: {ingress: {host: MinIO.harbor.example, ingressClassName: nginx}, tls: {certificateRef: public}}\n", "",
				"      minIO:\n", "      minIO:\n        redirect: {enable: true}\n",
			},
		},
		{"a misspelt field", "spec.cache.spec.redisFailover.sentinels: unknown field", []string{"sentinel:", "sentinels:"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := harborCluster(t, test.oldnew...)
			var invalid manifest.Invalid
			require.ErrorAs(t, err, &invalid)
			require.Len(t, invalid, 1, "%v", err)
			require.True(t, strings.HasPrefix(invalid[0].String(), "f: HarborCluster registry/main: "+test.line), invalid[0].String())
		})
	}
}
