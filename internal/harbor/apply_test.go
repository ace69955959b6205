package harbor_test

import (
	"encoding/base64"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/manifest"
)

var update = flag.Bool("update", false, "write the golden files")

// read returns the HarborCluster of a file, with defaults, after changes to its text.
func read(t *testing.T, file string, oldnew ...string) *goharborv1.HarborCluster {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	objects, err := manifest.Decode(file, []byte(strings.NewReplacer(oldnew...).Replace(string(text))))
	require.NoError(t, err)
	hc := objects[0].(*goharborv1.HarborCluster)
	hc.Generation = 3
	return hc
}

var values = harbor.Values{DatabasePassword: "db-password", AccessKey: "access", SecretKey: "secret-key"}

// applied returns all objects that are applied for a HarborCluster, in order.
func applied(t *testing.T, hc *goharborv1.HarborCluster) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, part := range []harbor.Manifest{harbor.Database(hc), harbor.Cache(hc), harbor.Storage(hc)} {
		objects = append(objects, part.Objects...)
	}
	if job := harbor.BucketJob(hc); job != nil {
		objects = append(objects, job)
	}
	service, err := harbor.Service(hc, values)
	require.NoError(t, err)
	return append(objects, service...)
}

// The objects are compared with golden files; go test ./internal/harbor -update writes them.
func TestAppliedObjects(t *testing.T) {
	for _, name := range []string{"incluster", "external"} {
		t.Run(name, func(t *testing.T) {
			var documents []string
			for _, object := range applied(t, read(t, name+".yaml")) {
				require.NotPanics(t, func() { object.DeepCopy() }, "an unstructured object holds only JSON types")
				text, err := yaml.Marshal(object.Object)
				require.NoError(t, err)
				documents = append(documents, string(text))
			}
			got, golden := strings.Join(documents, "---\n"), "testdata/"+name+".golden.yaml"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

func TestCredentialsAreCreatedUnlessTheyAreGiven(t *testing.T) {
	hc := read(t, "incluster.yaml")
	require.Empty(t, harbor.Database(hc).Credentials, "the operator creates the database's")
	require.Equal(t, []harbor.Credentials{{Name: "main-redis", Keys: [][]string{{"password", "redis-password"}}}}, harbor.Cache(hc).Credentials)
	require.Equal(t, []harbor.Credentials{{Name: "minio-main-creds", Keys: [][]string{{"accesskey"}, {"secretkey"}}}}, harbor.Storage(hc).Credentials)

	hc = read(t, "incluster.yaml", "volumesPerServer: 2", "volumesPerServer: 2\n        secretRef: mine")
	require.Empty(t, harbor.Storage(hc).Credentials)
	require.Equal(t, [][]string{{"mine"}}, harbor.StorageSources(hc))
}

func TestMinIOReadsItsKeysFromItsConfiguration(t *testing.T) {
	hc := read(t, "incluster.yaml")
	secrets, err := harbor.StorageSecrets(hc, values)
	require.NoError(t, err)
	require.Len(t, secrets, 1)
	name, _, _ := unstructured.NestedString(harbor.Storage(hc).Objects[0].Object, "spec", "configuration", "name")
	require.Equal(t, name, secrets[0].GetName())
	text, _, _ := unstructured.NestedString(secrets[0].Object, "data", "config.env")
	settings, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	require.Equal(t, "export MINIO_ROOT_USER=\"access\"\nexport MINIO_ROOT_PASSWORD=\"secret-key\"\n", string(settings))

	_, err = harbor.StorageSecrets(hc, harbor.Values{AccessKey: "a"})
	require.EqualError(t, err, "secret registry/minio-main-creds has no accesskey or no secretkey")
	_, err = harbor.StorageSecrets(hc, harbor.Values{AccessKey: "a", SecretKey: "s\n"})
	require.EqualError(t, err, "secret registry/minio-main-creds: accesskey or secretkey has a line break, which MinIO cannot read")
	secrets, err = harbor.StorageSecrets(read(t, "external.yaml"), harbor.Values{})
	require.NoError(t, err)
	require.Empty(t, secrets)
}

func TestHarborNeedsItsCredentials(t *testing.T) {
	hc := read(t, "incluster.yaml")
	_, err := harbor.Service(hc, harbor.Values{AccessKey: "a", SecretKey: "s"})
	require.EqualError(t, err, "secret registry/harbor.postgresql-registry-main.credentials.postgresql.acid.zalan.do has no password")
	_, err = harbor.Service(hc, harbor.Values{DatabasePassword: "p", AccessKey: "a"})
	require.EqualError(t, err, "secret registry/minio-main-creds has no accesskey or no secretkey")
	_, err = harbor.Service(read(t, "external.yaml"), harbor.Values{})
	require.NoError(t, err)
}

func TestAppliedObjectsFollowTheSpec(t *testing.T) {
	field := func(hc *goharborv1.HarborCluster, kind string, path ...string) any {
		for _, object := range applied(t, hc) {
			if object.GetKind() == kind {
				value, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
				return value
			}
		}
		return nil
	}
	hc := read(t, "incluster.yaml", "storageClassName: fast", "version: \"13\"\n        image: spilo:1\n        sslConfig: disable", "notary: {migrationEnabled: true}", "deletionPolicy: Delete")
	require.Equal(t, "13", field(hc, "postgresql", "spec", "postgresql", "version"))
	require.Equal(t, "spilo:1", field(hc, "postgresql", "spec", "dockerImage"))
	require.Equal(t, map[string]any{"core": "harbor"}, field(hc, "postgresql", "spec", "databases"), "without Notary there are no databases for it")
	require.Equal(t, "disable", field(hc, "Harbor", "spec", "database", "sslMode"))
	require.Equal(t, false, field(hc, "RedisFailover", "spec", "redis", "storage", "keepAfterDeletion"))

	hc = read(t, "incluster.yaml", "enable: true", "enable: false")
	require.Nil(t, field(hc, "Ingress", "spec"))
	require.Equal(t, true, field(hc, "Harbor", "spec", "imageChartStorage", "redirect", "disable"))
	require.Equal(t, "http://minio-main-hl.registry.svc:9000", field(hc, "Harbor", "spec", "imageChartStorage", "s3", "regionendpoint"))
	require.Equal(t, []any{"other"}, field(hc, "Harbor", "spec", "core", "certificateRefs"), "no certificate to trust")
}
