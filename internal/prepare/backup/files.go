package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Directories of the node in a backup, by archive: those of TALM's.
var backedUp = []struct{ archive, directory string }{
	{"etc.tar.gz", "/etc"},
	{"usr-local.tar.gz", "/usr/local"},
	{"kubelet.tar.gz", "/var/lib/kubelet"},
}

const (
	extrasArchive = "extras.tar.gz"
	configs       = "/etc/kubernetes"
	resources     = "static-pod-resources"
	// machineConfig is the configuration that OpenShift has applied to the node.
	machineConfig = "/etc/machine-config-daemon/currentconfig"
)

// staticPods of a control plane on OpenShift.
var staticPods = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"}

// archives are those of this node.
func (r *run) archives() ([]archive, error) {
	var archives []archive
	for _, part := range backedUp {
		archives = append(archives, archive{name: part.archive, trees: []tree{r.tree(part.directory)}})
	}
	static, err := r.staticResources()
	if err != nil {
		return nil, err
	}
	extras, err := r.extras()
	if err != nil {
		return nil, err
	}
	return append(archives, slices.Concat(static, extras)...), nil
}

// tree is a path of the node. Its name in an archive is relative to the root directory of the node.
func (r *run) tree(path string) tree {
	return tree{base: strings.TrimSuffix(r.root.Path(path), path) + "/", name: strings.TrimPrefix(path, "/")}
}

// staticResources is the archive of static pods that OpenShift's cluster-restore.sh takes. A node of another distribution has none: its static
// pods are in /etc.
func (r *run) staticResources() ([]archive, error) {
	base := r.root.Path(configs)
	if _, err := os.Stat(filepath.Join(base, resources)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	a := archive{name: filepath.Join(clusterDirectory, "static_kuberesources_"+r.stamp()+".tar.gz")}
	for _, pod := range staticPods {
		manifest := filepath.Join("manifests", pod+"-pod.yaml")
		data, err := os.ReadFile(filepath.Join(base, manifest))
		if err != nil {
			return nil, fmt.Errorf("static pod %s: %w", pod, err)
		}
		revision := regexp.MustCompile(regexp.QuoteMeta(configs+"/") + "(" + resources + "/" + pod + "-pod-[0-9]+)").FindSubmatch(data)
		if revision == nil {
			return nil, fmt.Errorf("static pod %s: %s/%s names no directory %s/%s-pod-REVISION", pod, configs, manifest, resources, pod)
		}
		a.trees = append(a.trees, tree{base: base, name: string(revision[1])})
	}
	return []archive{a}, nil
}

// extras is the archive of files elsewhere that OpenShift's machine configuration has written.
func (r *run) extras() ([]archive, error) {
	data, err := os.ReadFile(r.root.Path(machineConfig))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var config struct {
		Spec struct {
			Config struct {
				Storage struct {
					Files []struct {
						Path string `json:"path"`
					} `json:"files"`
				} `json:"storage"`
			} `json:"config"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", machineConfig, err)
	}
	extras := archive{name: extrasArchive}
	for _, file := range config.Spec.Config.Storage.Files {
		if isBackedUp(file.Path) {
			continue
		}
		if _, err := os.Lstat(r.root.Path(file.Path)); err != nil {
			r.printf("%s: left out %s of %s: %v", extrasArchive, file.Path, machineConfig, err)
			continue
		}
		extras.trees = append(extras.trees, r.tree(file.Path))
	}
	return []archive{extras}, nil
}

func isBackedUp(path string) bool {
	for _, part := range backedUp {
		if strings.HasPrefix(path, part.directory+"/") {
			return true
		}
	}
	return false
}
