package harbor

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
)

// external are the settings of a service that runs outside.
type external struct {
	// path of the settings within the HarborCluster.
	path   string
	fields map[string]any
	// required are the settings without which Harbor cannot use the service.
	required []string
	// secrets are the settings that name Secrets.
	secrets []string
}

func externalDatabase(hc *goharborv1.HarborCluster) external {
	return external{"spec.database.spec.postgresql", raw(hc.Spec.Database.Spec.PostgreSQL), []string{"hosts"}, []string{"passwordRef"}}
}

func externalCache(hc *goharborv1.HarborCluster) external {
	return external{"spec.cache.spec.redis", raw(hc.Spec.Cache.Spec.Redis), []string{"host"}, []string{"passwordRef", "certificateRef"}}
}

func externalStorage(hc *goharborv1.HarborCluster) external {
	const path = "spec.storage.spec."
	switch spec := hc.Spec.Storage.Spec; hc.Spec.Storage.Kind {
	case goharborv1.S3:
		return external{path + "s3", raw(spec.S3), []string{"region", "bucket"}, []string{"secretkeyRef", "certificateRef"}}
	case goharborv1.Swift:
		return external{path + "swift", raw(spec.Swift), []string{"authurl", "username", "passwordRef", "container"}, []string{"passwordRef", "secretkeyRef"}}
	case goharborv1.Azure:
		return external{path + "azure", raw(spec.Azure), []string{"accountname", "accountkeyRef", "container"}, []string{"accountkeyRef"}}
	case goharborv1.Gcs:
		return external{path + "gcs", raw(spec.Gcs), []string{"bucket", "keyDataRef"}, []string{"keyDataRef"}}
	case goharborv1.Oss:
		return external{path + "oss", raw(spec.Oss), []string{"region", "bucket", "accessKeyID", "accessSecretRef"}, []string{"accessSecretRef"}}
	}
	return external{path + "fileSystem", raw(hc.Spec.Storage.Spec.FileSystem), []string{"registryPersistentVolume.claimName"}, nil}
}

// raw are settings that are passed on unchanged; anything but an object has none.
func raw(extension *runtime.RawExtension) map[string]any {
	fields := map[string]any{}
	if extension == nil || json.Unmarshal(extension.Raw, &fields) != nil {
		return map[string]any{}
	}
	return fields
}

// missing are the required settings that are absent, by path.
func (e external) missing() []string {
	var missing []string
	for _, setting := range e.required {
		value, found, _ := unstructured.NestedFieldNoCopy(e.fields, strings.Split(setting, ".")...)
		if list, isList := value.([]any); !found || value == "" || isList && len(list) == 0 {
			missing = append(missing, e.path+"."+setting)
		}
	}
	return missing
}

// secretNames are the Secrets that the settings name.
func (e external) secretNames() []string {
	var names []string
	for _, setting := range e.secrets {
		if name, _, _ := unstructured.NestedString(e.fields, setting); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// observe reports whether the settings and Secrets exist; the service itself is not contacted.
func (e external) observe(secrets map[string]bool) observation {
	if missing := e.missing(); len(missing) > 0 {
		return observation{state: failed, reason: ReasonSettingsMissing, message: "must be set: " + strings.Join(missing, ", ")}
	}
	for _, name := range e.secretNames() {
		if !secrets[name] {
			return observation{state: pending, reason: ReasonSecretMissing, message: fmt.Sprintf("there is no Secret %s, which %s names", name, e.path)}
		}
	}
	return observation{state: ready, reason: ReasonExternal, message: "runs elsewhere; its settings and secrets are there"}
}
