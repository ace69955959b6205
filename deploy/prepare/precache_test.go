package main_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/prepare/content"
)

func TestImagesOfAReleaseAreOnTheNode(t *testing.T) {
	r := startRegistry(t)
	n := startNode(t, r)
	images := r.pushSmall("ocp/etcd:1", "ocp/aws:1", "ocp/vsphere:1", "app:1")
	release := r.pushRelease("ocp/release:1", "etcd", images[0], "aws-cloud", images[1], "other", images[2])
	j := n.precache(r, ranv1.PrecachingSpec{
		PlatformImage: release, AdditionalImages: images[3:], ExcludePrecachePatterns: []string{"^aws", "ocp/v.*e"}, SpaceRequired: "1",
	})
	log := requireSucceeded(t, j)
	require.Contains(t, log, "3 images, 2 excluded")
	for image, want := range map[string]bool{release: true, images[0]: true, images[1]: false, images[2]: false, images[3]: true} {
		require.Equal(t, want, n.has(image), image)
	}
	j.requireClean()
}

// catalogJSON and catalogYAML are file-based catalogs. The newest bundle of stable is ptp.v3: v2 is skipped, and v1 is replaced.
const catalogJSON = `
{"schema": "olm.package", "name": "ptp", "defaultChannel": "stable"}
{"schema": "olm.channel", "package": "ptp", "name": "stable", "entries": [
  {"name": "ptp.v1"}, {"name": "ptp.v2", "replaces": "ptp.v1"}, {"name": "ptp.v3", "replaces": "ptp.v1", "skips": ["ptp.v2"]}]}
{"schema": "olm.channel", "package": "ptp", "name": "old", "entries": [{"name": "ptp.v1"}]}
{"schema": "olm.deprecations", "package": "ptp", "entries": "text"}
{"schema": "olm.bundle", "package": "ptp", "name": "ptp.v1", "image": "REGISTRY/ptp-bundle:1", "relatedImages": []}
{"schema": "olm.bundle", "package": "ptp", "name": "ptp.v3", "image": "REGISTRY/ptp-bundle:3",
 "relatedImages": [{"name": "", "image": "REGISTRY/ptp-bundle:3"}, {"name": "daemon", "image": "REGISTRY/ptp:3"}, {"name": "none", "image": ""}]}
{"schema": "olm.bundle", "package": "unwanted", "name": "unwanted.v1", "image": "REGISTRY/unwanted:1"}
`

const catalogYAML = `---
schema: olm.package
name: storage
---
schema: olm.channel
package: storage
name: "4.18"
entries:
- name: storage.v4
---
schema: olm.bundle
package: storage
name: storage.v4
image: REGISTRY/storage-bundle:4
relatedImages:
- name: driver
  image: REGISTRY/storage:4
`

func (r *imageRegistry) pushCatalog(tag, directory string, catalog files) string {
	for path, text := range catalog {
		catalog[path] = strings.ReplaceAll(text, "REGISTRY", r.host)
	}
	return r.push(tag, v1.Config{Labels: map[string]string{content.CatalogLabel: directory}, User: "1001"}, catalog)
}

func TestTheNewestBundlesOfTheWantedChannelsAreOnTheNode(t *testing.T) {
	r := startRegistry(t)
	n := startNode(t, r)
	wanted := r.pushSmall("ptp-bundle:3", "ptp:3", "storage-bundle:4", "storage:4")
	unwanted := r.pushSmall("ptp-bundle:1", "unwanted:1")
	indexes := []string{
		r.pushCatalog("redhat-index:1", "/catalog", files{"catalog/ptp/catalog.json": catalogJSON, "catalog/.indexignore": "x"}),
		r.pushCatalog("other-index:1", "/configs", files{"configs/all.yaml": catalogYAML}),
	}
	j := n.precache(r, ranv1.PrecachingSpec{OperatorsIndexes: indexes, OperatorsPackagesAndChannels: []string{"ptp:stable", "storage:4.18"}, SpaceRequired: "1"})
	log := requireSucceeded(t, j)
	require.Contains(t, log, "ptp:stable has bundle ptp.v3 with 2 images")
	for _, image := range append(wanted, indexes...) {
		require.True(t, n.has(image), image)
	}
	for _, image := range unwanted {
		require.False(t, n.has(image), image)
	}
	j.requireClean()

	j = n.precache(r, ranv1.PrecachingSpec{OperatorsIndexes: indexes, OperatorsPackagesAndChannels: []string{"ptp:stable", "ptp:none", "gone:1"}})
	require.Contains(t, requireFailed(t, j), "error: no catalog has [ptp:none gone:1]\n")
}

func TestImagesThatAreNoReleasesOrCatalogsAreNamed(t *testing.T) {
	r := startRegistry(t)
	n := startNode(t, r)
	image := r.pushSmall("app:1")[0]
	broken := r.push("broken:1", v1.Config{}, files{"configs/ptp/catalog.json": `{"schema": "olm.channel", `})
	database := r.push("database:1", v1.Config{Labels: map[string]string{content.DatabaseLabel: "/index.db"}}, files{"index.db": "x"})
	tests := []struct {
		name string
		spec ranv1.PrecachingSpec
		want string
	}{
		{"no release", ranv1.PrecachingSpec{PlatformImage: image}, "release image " + image + ": it is no release image: open /release-manifests/image-references: no such file or directory"},
		{"no catalog", ranv1.PrecachingSpec{OperatorsIndexes: []string{image}, OperatorsPackagesAndChannels: []string{"a:b"}}, "catalog " + image + ": it has no file-based catalog: stat /configs: no such file"},
		{"a broken catalog", ranv1.PrecachingSpec{OperatorsIndexes: []string{broken}, OperatorsPackagesAndChannels: []string{"a:b"}}, "catalog " + broken + ": ptp/catalog.json: "},
		{"a database", ranv1.PrecachingSpec{OperatorsIndexes: []string{database}, OperatorsPackagesAndChannels: []string{"a:b"}}, "catalog " + database + " is an SQLite database; migrate it"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			j := n.precache(r, test.spec)
			require.Contains(t, requireFailed(t, j), "error: "+test.want)
			j.requireClean()
		})
	}
}

// The pull secret of the node gives access to private images, also where the node's containerd has no login of its own.
func TestPrivateImagesNeedThePullSecretOfTheNode(t *testing.T) {
	r := startRegistry(t)
	n := startNode(t, r)
	images := r.pushSmall("private/app:1", "public/app:1")
	spec := ranv1.PrecachingSpec{AdditionalImages: images, SpaceRequired: "1"}
	log := requireFailed(t, n.precache(r, spec, "PULL_ATTEMPTS=1"))
	require.Contains(t, log, "images that were not pulled:\n"+images[0]+": ")
	require.Regexp(t, "401 Unauthorized|authentication required|authorization failed", log)
	require.True(t, strings.HasSuffix(log, "\nerror: 1 of 2 images were not pulled, for the reasons above\n"))
	require.True(t, n.has(images[1]))

	login := func(user, password string) string {
		return fmt.Sprintf(`{"auth": %q}`, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	}
	n.write("/var/lib/kubelet/config.json", fmt.Sprintf(`{"auths": {%q: %s, %q: %s}}`, r.host, login("other", "x"), r.host+"/private", login(user, password)))
	require.Contains(t, requireSucceeded(t, n.precache(r, spec)), "all 2 images are on the node")
	require.True(t, n.has(images[0]))
}

// The runtime pulls, so that the mirrors of the node apply.
func TestMirrorsOfTheNodeApply(t *testing.T) {
	r := startRegistry(t)
	n := startNode(t, r)
	r.pushSmall("team/app:1")
	n.write("/etc/containerd/certs.d/registry.invalid/hosts.toml", fmt.Sprintf("[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", "http://"+r.host))
	requireSucceeded(t, n.precache(r, ranv1.PrecachingSpec{AdditionalImages: []string{"registry.invalid/team/app:1"}, SpaceRequired: "1"}))
	require.True(t, n.has("registry.invalid/team/app:1"))
}

func TestARegistryThatComesBackDelaysPrecaching(t *testing.T) {
	r := startRegistry(t)
	n := startNode(t, r)
	release := r.pushRelease("ocp/release:1", "etcd", r.pushSmall("ocp/etcd:1")[0])
	app := r.pushSmall("app:1")
	// The image of the Job is on the node afterwards.
	requireSucceeded(t, n.precache(r, ranv1.PrecachingSpec{AdditionalImages: r.pushSmall("first:1"), SpaceRequired: "1"}))
	r.down.Store(true)
	j := n.precache(r, ranv1.PrecachingSpec{PlatformImage: release, AdditionalImages: app, SpaceRequired: "1"})
	j.awaitLog("attempt 1 of 10 failed")
	r.down.Store(false)
	require.Contains(t, requireSucceeded(t, j), "503 Service Unavailable")
	require.True(t, n.has(release))
}

func TestEveryImageThatFailsIsNamedAtTheEndOfTheLog(t *testing.T) {
	r := startRegistry(t)
	n := startNode(t, r)
	images := r.pushSmall("a:1", "b:1", "c:1")
	spec := ranv1.PrecachingSpec{AdditionalImages: append(images, r.host+"/missing:1", "unreachable.invalid/x:2"), SpaceRequired: "1"}
	log := requireFailed(t, n.precache(r, spec, "PULL_ATTEMPTS=2", "MAX_PULL_THREADS=2"))
	end := log[strings.Index(log, "images that were not pulled:"):]
	require.True(t, strings.HasSuffix(end, "\nerror: 2 of 5 images were not pulled, for the reasons above\n"))
	require.Contains(t, end, "\n"+r.host+"/missing:1: ")
	require.Contains(t, end, "\nunreachable.invalid/x:2: ")
	require.NotContains(t, log, "missing:1: attempt", "an image that is not in its registry is not asked for again")
	require.Contains(t, log, "unreachable.invalid/x:2: attempt 1 of 2 failed")
	for _, image := range images {
		require.True(t, n.has(image), image)
	}
}

func TestTooLittleSpaceEndsPrecachingBeforeTheFirstPull(t *testing.T) {
	r := startRegistry(t)
	n := startNodeOn(t, r, "size=700m")
	image := r.pushSmall("app:1")[0]
	log := requireFailed(t, n.precache(r, ranv1.PrecachingSpec{AdditionalImages: []string{image}, SpaceRequired: "1"}))
	require.Contains(t, log, "MiB free, but 1.0 GiB are required; free some, or lower spaceRequired")
	require.False(t, n.has(image))

	// The kubelet removes images as soon as there are some.
	n.write("/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\nimageGCHighThresholdPercent: 1\n")
	log = requireFailed(t, n.precache(r, ranv1.PrecachingSpec{AdditionalImages: []string{image}}))
	require.Contains(t, log, "kubelet's limit: 1% of 700 MiB")
	require.Contains(t, log, "not enough space")
}

// A disk that fills up while images are pulled: the runtime's error is the reason.
func TestAFullDiskIsTheReasonOfAFailedPull(t *testing.T) {
	r := startRegistry(t)
	n := startNodeOn(t, r, "size=200m")
	large := r.push("large:1", v1.Config{}, files{"content": strings.Repeat("0", 250<<20)})
	log := requireFailed(t, n.precache(r, ranv1.PrecachingSpec{AdditionalImages: []string{large}}, "PULL_ATTEMPTS=1"))
	require.Contains(t, log, "images that were not pulled:\n"+large+": ")
	require.Contains(t, log, "no space left on device")
}

func TestImagesThatTheKubeletWouldRemoveAreAFailure(t *testing.T) {
	r := startRegistry(t)
	n := startNodeOn(t, r, "size=400m")
	n.write("/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\nimageGCHighThresholdPercent: 30\n")
	large := r.push("large:1", v1.Config{}, files{"content": strings.Repeat("0", 150<<20)})
	log := requireFailed(t, n.precache(r, ranv1.PrecachingSpec{AdditionalImages: []string{large}}))
	require.Contains(t, log, "error: the kubelet would remove the pulled images: "+n.root)
	require.Contains(t, log, "kubelet's limit: 30% of 400 MiB")
}

// A killed run leaves what it has pulled. The next one pulls the rest, and needs no space for what is there.
func TestAKilledRunIsContinued(t *testing.T) {
	r := startRegistry(t)
	n := startNode(t, r)
	images := r.pushSmall("ocp/a:1", "ocp/b:1", "ocp/c:1")
	release := r.pushRelease("ocp/release:1", "a", images[0], "b", images[1], "c", images[2])
	spec := ranv1.PrecachingSpec{PlatformImage: release, SpaceRequired: "1"}
	pulling, resume := make(chan struct{}), make(chan struct{})
	hook := func(request *http.Request) {
		if strings.HasPrefix(request.URL.Path, "/v2/ocp/c/manifests") {
			select {
			case pulling <- struct{}{}:
			case <-resume:
			}
			<-resume
		}
	}
	r.onRequest.Store(&hook)
	j := n.precache(r, spec, "MAX_PULL_THREADS=1")
	<-pulling
	j.kill()
	close(resume)
	code, _ := j.await()
	require.NotZero(t, code)
	require.Contains(t, requireSucceeded(t, n.precache(r, spec)), "all 4 images are on the node")
}

// A run that is killed while a container reads an image leaves a directory, which the next one removes. The pod of the killed run has the container.
func TestARunThatIsKilledWhileItReadsAnImageLeavesNothingForLong(t *testing.T) {
	r := startRegistry(t)
	n := startNode(t, r)
	j := n.precache(r, ranv1.PrecachingSpec{PlatformImage: r.push("ocp/blocking:1", v1.Config{}, files{"release-manifests/image-references": pipe})})
	j.awaitReader()
	j.kill()
	code, _ := j.await()
	require.NotZero(t, code)
	again := n.precache(r, ranv1.PrecachingSpec{PlatformImage: r.pushRelease("ocp/release:1", "etcd", r.pushSmall("ocp/etcd:1")[0])})
	requireSucceeded(t, again)
	again.requireClean()
}

func TestOnSIGTERMTheContainerThatReadsAnImageIsRemoved(t *testing.T) {
	r := startRegistry(t)
	n := startNode(t, r)
	j := n.precache(r, ranv1.PrecachingSpec{PlatformImage: r.push("ocp/blocking:1", v1.Config{}, files{"release-manifests/image-references": pipe})})
	j.awaitReader()
	j.terminate()
	require.Contains(t, requireFailed(t, j), "error: release image ")
	j.requireClean()
}

func TestOnSIGTERMTheImagesThatAreNotPulledAreNamed(t *testing.T) {
	r := startRegistry(t)
	n := startNode(t, r)
	images := r.pushSmall("a:1", "b:1")
	pulling := make(chan struct{})
	hook := func(request *http.Request) {
		if strings.HasPrefix(request.URL.Path, "/v2/b/manifests") {
			select {
			case pulling <- struct{}{}:
			case <-request.Context().Done():
			}
			<-request.Context().Done()
		}
	}
	r.onRequest.Store(&hook)
	j := n.precache(r, ranv1.PrecachingSpec{AdditionalImages: images}, "MAX_PULL_THREADS=1")
	<-pulling
	j.terminate()
	require.Contains(t, requireFailed(t, j), "images that were not pulled:\n"+images[1]+": stopped before it was pulled\nerror: 1 of 2 images were not pulled")
}

func TestEveryInvalidValueOfTheConfigMapIsNamed(t *testing.T) {
	r := startRegistry(t)
	n := startNode(t, r)
	log := requireFailed(t, n.precache(r, ranv1.PrecachingSpec{
		PlatformImage: "Not/An Image", OperatorsIndexes: []string{"index:1", "?"}, OperatorsPackagesAndChannels: []string{"ptp", "a:b:c"},
		ExcludePrecachePatterns: []string{"[a", `\(b`, `\1`}, AdditionalImages: []string{"app 1"}, SpaceRequired: "35 GiB",
	}))
	end := log[strings.Index(log, "error: "):]
	for _, want := range []string{
		`platform.image of the ConfigMap has "Not/An Image", which is not the name of an image`,
		`operators.indexes of the ConfigMap has "?", which is not the name of an image`,
		`operators.packagesAndChannels of the ConfigMap has "ptp", but package:channel is expected`,
		`operators.packagesAndChannels of the ConfigMap has "a:b:c", but package:channel is expected`,
		`excludePrecachePatterns of the ConfigMap has "[a": a list in brackets has no end`,
		`excludePrecachePatterns of the ConfigMap has "\\(b": `,
		`excludePrecachePatterns of the ConfigMap has "\\1": back-references, such as \1, are not supported`,
		`additionalImages of the ConfigMap has "app 1", which is not the name of an image`,
		`spaceRequired of the ConfigMap is "35 GiB", but a whole number of GiB is expected`,
	} {
		require.Contains(t, end, want)
	}
	require.Contains(t, requireFailed(t, n.precache(r, ranv1.PrecachingSpec{})), "error: platform.image of the ConfigMap is empty, and so are operators.indexes and additionalImages: nothing to pull\n")
	require.Contains(t, requireFailed(t, n.precache(r, ranv1.PrecachingSpec{AdditionalImages: []string{"a"}}, "MAX_PULL_THREADS=many")), `MAX_PULL_THREADS is "many"`)
}

// startNodeOn starts a node whose images are in a small file system.
func startNodeOn(t *testing.T, r *imageRegistry, options string) *node {
	t.Helper()
	return startNode(t, r, func(root string) {
		disk := root + "/var/lib/containerd"
		require.NoError(t, os.MkdirAll(disk, 0o755))
		require.NoError(t, unix.Mount("tmpfs", disk, "tmpfs", 0, options))
		t.Cleanup(func() { require.NoError(t, unix.Unmount(disk, unix.MNT_DETACH)) })
	})
}
