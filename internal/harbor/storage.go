package harbor

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
)

const (
	pool   = "zone-harbor"
	bucket = "harbor"
	region = "us-east-1"
	// minioPort is the port of the service of MinIO's servers, which its operator names <tenant>-hl.
	minioPort = 9000
	// defaultClient is the image of MinIO's command line.
	defaultClient = "minio/mc:RELEASE.2025-08-13T08-35-41Z"
	// makeBucket does not wait: the Job is applied once MinIO is ready, and retries by itself.
	makeBucket = `mc --config-dir /tmp alias set minio "$MINIO_ENDPOINT" "$MINIO_ACCESS_KEY" "$MINIO_SECRET_KEY" && mc --config-dir /tmp mb --ignore-existing "minio/$MINIO_BUCKET"`
)

// Storage returns the objects for the storage, except the bucket: see BucketJob.
func Storage(hc *goharborv1.HarborCluster) Manifest {
	spec := minioOf(hc)
	if spec == nil {
		return Manifest{}
	}
	fields := map[string]any{
		"pools":               []any{minioPool(spec)},
		"configuration":       map[string]any{"name": minioConfiguration(hc)},
		"podManagementPolicy": "Parallel",
		"requestAutoCert":     false,
	}
	setText(fields, "image", spec.Image.Image)
	pull := pullOf(hc, spec.ImagePull)
	setText(fields, "imagePullPolicy", string(pull.ImagePullPolicy))
	if len(pull.ImagePullSecrets) > 0 {
		fields["imagePullSecret"] = map[string]any{"name": pull.ImagePullSecrets[0].Name}
	}
	manifest := Manifest{Objects: []*unstructured.Unstructured{object(Tenant, hc, minioName(hc), map[string]any{"spec": fields})}}
	if spec.SecretRef == "" {
		manifest.Credentials = []Credentials{{Name: minioSecret(hc), Keys: [][]string{{"accesskey"}, {"secretkey"}}}}
	}
	if expose := exposed(hc); expose != nil {
		manifest.Objects = append(manifest.Objects, minioIngress(hc, expose))
	} else {
		manifest.Unwanted = []Object{{Ingress, minioName(hc)}}
	}
	return manifest
}

// StorageSecrets returns the Secret with MinIO's settings, which its operator reads: the root user. Nothing for an external storage. The error names what is
// wrong with a value.
func StorageSecrets(hc *goharborv1.HarborCluster, values Values) ([]*unstructured.Unstructured, error) {
	if minioOf(hc) == nil {
		return nil, nil
	}
	if err := values.checkKeys(hc); err != nil {
		return nil, err
	}
	settings := fmt.Sprintf("export MINIO_ROOT_USER=\"%s\"\nexport MINIO_ROOT_PASSWORD=\"%s\"\n", values.AccessKey, values.SecretKey)
	return []*unstructured.Unstructured{secret(hc, minioConfiguration(hc), map[string]string{"config.env": settings})}, nil
}

// checkKeys checks MinIO's keys. Its settings are lines.
func (v Values) checkKeys(hc *goharborv1.HarborCluster) error {
	switch {
	case v.AccessKey == "" || v.SecretKey == "":
		return fmt.Errorf("secret %s/%s has no accesskey or no secretkey", hc.Namespace, minioSecret(hc))
	case strings.ContainsAny(v.AccessKey+v.SecretKey, "\r\n"):
		return fmt.Errorf("secret %s/%s: accesskey or secretkey has a line break, which MinIO cannot read", hc.Namespace, minioSecret(hc))
	}
	return nil
}

// minioOf is the MinIO of a HarborCluster, or nil when its storage runs elsewhere.
func minioOf(hc *goharborv1.HarborCluster) *goharborv1.MinIOSpec {
	if hc.Spec.Storage.Kind != goharborv1.MinIO {
		return nil
	}
	return hc.Spec.Storage.Spec.MinIO
}

func minioPool(spec *goharborv1.MinIOSpec) map[string]any {
	template := map[string]any{"spec": claim(goharborv1.VolumeSpec{Storage: "10Gi"})}
	if given := raw(spec.VolumeClaimTemplate); len(given) > 0 {
		template = given
	}
	fields := map[string]any{
		"name": pool, "servers": int64(spec.Replicas), "volumesPerServer": int64(spec.VolumesPerServer), "volumeClaimTemplate": template,
		"securityContext": map[string]any{"fsGroup": int64(10000), "runAsGroup": int64(10000), "runAsUser": int64(10000)},
	}
	if resources := plain(&spec.Resources); len(resources) > 0 {
		fields["resources"] = resources
	}
	return fields
}

// exposed is how clients reach MinIO directly, or nil.
func exposed(hc *goharborv1.HarborCluster) *goharborv1.StorageExpose {
	if redirect := redirectOf(hc); redirects(redirect) {
		return redirect.Expose
	}
	return nil
}

func redirectOf(hc *goharborv1.HarborCluster) *goharborv1.StorageRedirect {
	if redirect := hc.Spec.Storage.Spec.Redirect; redirect != nil || minioOf(hc) == nil {
		return redirect
	}
	return minioOf(hc).Redirect
}

func redirects(redirect *goharborv1.StorageRedirect) bool {
	return redirect != nil && (redirect.Enable == nil || *redirect.Enable)
}

func minioIngress(hc *goharborv1.HarborCluster, expose *goharborv1.StorageExpose) *unstructured.Unstructured {
	host := strings.ToLower(expose.Ingress.Host)
	service := map[string]any{"name": minioName(hc) + "-hl", "port": map[string]any{"number": int64(minioPort)}}
	path := map[string]any{"path": "/", "pathType": string(networkingv1.PathTypePrefix), "backend": map[string]any{"service": service}}
	spec := map[string]any{"rules": []any{map[string]any{"host": host, "http": map[string]any{"paths": []any{path}}}}}
	if expose.Ingress.IngressClassName != nil {
		spec["ingressClassName"] = *expose.Ingress.IngressClassName
	}
	if expose.TLS != nil {
		spec["tls"] = []any{map[string]any{"secretName": expose.TLS.CertificateRef, "hosts": []any{host}}}
	}
	ingress := object(Ingress, hc, minioName(hc), map[string]any{"spec": spec})
	// Images are larger than the default limit of ingress-nginx.
	annotations := map[string]string{"nginx.ingress.kubernetes.io/proxy-body-size": "0"}
	for key, value := range expose.Ingress.Annotations {
		annotations[key] = value
	}
	ingress.SetAnnotations(annotations)
	return ingress
}

func minioEndpoint(hc *goharborv1.HarborCluster) string {
	return fmt.Sprintf("http://%s-hl.%s.svc:%d", minioName(hc), hc.Namespace, minioPort)
}

// annotationWanted identifies the desired state of a Job. Unlike other fields, admission does not change it.
const annotationWanted = "drydock.dev/wanted"

// BucketJob creates Harbor's bucket. It is applied when the Tenant is ready; nil when the storage runs outside.
func BucketJob(hc *goharborv1.HarborCluster) *unstructured.Unstructured {
	spec := minioOf(hc)
	if spec == nil {
		return nil
	}
	client := goharborv1.Image{}
	if spec.Client != nil {
		client = *spec.Client
	}
	key := func(name, key string) map[string]any {
		return map[string]any{"name": name, "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": minioSecret(hc), "key": key}}}
	}
	container := map[string]any{
		"name": "make-bucket", "image": text(client.Image, defaultClient), "command": []any{"/bin/sh", "-c", makeBucket},
		"env": []any{
			map[string]any{"name": "MINIO_BUCKET", "value": bucket},
			map[string]any{"name": "MINIO_ENDPOINT", "value": minioEndpoint(hc)},
			key("MINIO_ACCESS_KEY", "accesskey"), key("MINIO_SECRET_KEY", "secretkey"),
		},
	}
	pull := pullOf(hc, client.ImagePull)
	setText(container, "imagePullPolicy", string(pull.ImagePullPolicy))
	pod := map[string]any{"restartPolicy": "OnFailure", "containers": []any{container}}
	if secrets := pullSecrets(pull); len(secrets) > 0 {
		pod["imagePullSecrets"] = secrets
	}
	job := object(Job, hc, minioName(hc), map[string]any{"spec": map[string]any{"template": map[string]any{"spec": pod}}})
	job.SetAnnotations(map[string]string{annotationWanted: fingerprint(job.Object)})
	return job
}

// wantsBucket reports whether the Job that creates the bucket must be applied: there is none, or it is outdated.
func wantsBucket(hc *goharborv1.HarborCluster, o Observed) bool {
	return minioOf(hc) != nil && (o.BucketJob == nil || outdatedJob(hc, o) != "")
}

// outdatedJob returns why a Job does not create the desired bucket; empty: it does, or has. A Job is immutable. A complete Job has created the
// bucket, but not in the volumes of a Tenant that was created later.
func outdatedJob(hc *goharborv1.HarborCluster, o Observed) string {
	job := o.BucketJob
	if o.Tenant != nil && !job.CreationTimestamp.IsZero() {
		if made := o.Tenant.GetCreationTimestamp(); job.CreationTimestamp.Before(&made) {
			return "is older than Tenant " + o.Tenant.GetName()
		}
	}
	wanted, marked := job.Annotations[annotationWanted]
	if marked && wanted != BucketJob(hc).GetAnnotations()[annotationWanted] && !jobComplete(job) {
		return "does not match the current spec"
	}
	return ""
}

func jobComplete(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
	})
}

// registryStorage is the storage setting of Harbor's own spec.
func registryStorage(hc *goharborv1.HarborCluster, accessKey string) map[string]any {
	if minioOf(hc) == nil {
		settings := externalStorage(hc)
		driver := strings.ToLower(string(hc.Spec.Storage.Kind))
		storage := map[string]any{driver: settings.fields}
		if redirect := hc.Spec.Storage.Spec.Redirect; redirect != nil {
			storage["redirect"] = map[string]any{"disable": !redirects(redirect)}
		}
		return storage
	}
	s3 := map[string]any{
		"accesskey": accessKey, "secretkeyRef": minioName(hc), "region": region, "bucket": bucket,
		"regionendpoint": minioEndpoint(hc), "secure": false, "v4auth": true, "skipverify": true,
	}
	expose := exposed(hc)
	if expose != nil && expose.TLS != nil {
		s3["regionendpoint"], s3["secure"], s3["skipverify"] = "https://"+strings.ToLower(expose.Ingress.Host), true, false
		s3["certificateRef"] = expose.TLS.CertificateRef
	} else if expose != nil {
		s3["regionendpoint"] = "http://" + strings.ToLower(expose.Ingress.Host)
	}
	return map[string]any{"s3": s3, "redirect": map[string]any{"disable": expose == nil}}
}
