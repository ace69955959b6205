package operators

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (o *Operators) simulatePostgresql(ctx context.Context, object *unstructured.Unstructured, now stage) error {
	if err := o.claim(ctx, object, "pgdata-"+object.GetName()+"-0", map[string]string{"cluster-name": object.GetName()}); err != nil {
		return err
	}
	before, _, _ := unstructured.NestedString(object.Object, "status", "PostgresClusterStatus")
	status := "Creating"
	switch {
	case now == ready:
		name := "harbor." + object.GetName() + ".credentials.postgresql.acid.zalan.do"
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: name}, Data: map[string][]byte{
			"username": []byte("harbor"), "password": []byte("from-the-operator"),
		}}
		if err := o.create(ctx, secret); err != nil {
			return err
		}
		status = "Running"
	case now == failed && (before == "" || before == "Creating" || before == "CreateFailed"):
		status = "CreateFailed"
	case now == failed:
		status = "SyncFailed"
	case now == down:
		status = "Updating"
	}
	return o.writeStatus(ctx, object, map[string]any{"PostgresClusterStatus": status})
}

func (o *Operators) simulateRedis(ctx context.Context, object *unstructured.Unstructured, now stage) error {
	labels := redisLabels(object, "redis")
	if err := o.claim(ctx, object, object.GetName()+"-rfr-"+object.GetName()+"-0", labels); err != nil {
		return err
	}
	selector, template := podsOf(labels)
	servers, sentinels := replicasOf(object, "redis"), replicasOf(object, "sentinel")
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: "rfr-" + object.GetName()},
		Spec:       appsv1.StatefulSetSpec{Replicas: &servers, Selector: selector, Template: template, ServiceName: "rfr-" + object.GetName()},
	}
	selector, template = podsOf(redisLabels(object, "sentinel"))
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: "rfs-" + object.GetName()},
		Spec:       appsv1.DeploymentSpec{Replicas: &sentinels, Selector: selector, Template: template},
	}
	if err := o.create(ctx, set); err != nil {
		return err
	}
	if err := o.create(ctx, deployment); err != nil || o.options.Controllers {
		return err
	}
	serving := int32(0)
	if now == ready {
		serving = servers
	}
	return o.serve(ctx, set, deployment, servers, serving, sentinels)
}

// redisLabels are the labels of the pods and claims of a part. Claims have no others.
func redisLabels(object *unstructured.Unstructured, part string) map[string]string {
	return map[string]string{"app.kubernetes.io/name": object.GetName(), "app.kubernetes.io/component": part, "app.kubernetes.io/part-of": "redis-failover"}
}

func podsOf(labels map[string]string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
	return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "redis", Image: "redis"}}},
	}
}

// serve simulates the controllers of a StatefulSet and a Deployment.
func (o *Operators) serve(ctx context.Context, set *appsv1.StatefulSet, deployment *appsv1.Deployment, wanted, servers, sentinels int32) error {
	if err := o.client.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
		return err
	}
	if *set.Spec.Replicas != wanted {
		set.Spec.Replicas = &wanted
		if err := o.client.Update(ctx, set); err != nil {
			return err
		}
	}
	before := set.Status
	set.Status = appsv1.StatefulSetStatus{ObservedGeneration: set.Generation, Replicas: *set.Spec.Replicas, ReadyReplicas: servers, AvailableReplicas: servers}
	if !equality.Semantic.DeepEqual(before, set.Status) {
		if err := o.client.Status().Update(ctx, set); err != nil {
			return err
		}
	}
	if err := o.client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
		return err
	}
	old := deployment.Status
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: sentinels, UpdatedReplicas: sentinels, ReadyReplicas: sentinels, AvailableReplicas: sentinels,
	}
	if equality.Semantic.DeepEqual(old, deployment.Status) {
		return nil
	}
	return o.client.Status().Update(ctx, deployment)
}

func replicasOf(object *unstructured.Unstructured, part string) int32 {
	replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", part, "replicas")
	return int32(replicas)
}

func (o *Operators) simulateTenant(ctx context.Context, object *unstructured.Unstructured, now stage) error {
	if err := o.claim(ctx, object, "0-"+object.GetName()+"-zone-harbor-0", map[string]string{"v1.min.io/tenant": object.GetName()}); err != nil {
		return err
	}
	pools, _, _ := unstructured.NestedSlice(object.Object, "spec", "pools")
	servers, states := int64(0), []any{}
	for _, pool := range pools {
		fields, _ := pool.(map[string]any)
		wanted, _ := fields["servers"].(int64)
		servers += wanted
		state := "PoolCreated"
		if now == ready || now == down {
			state = "PoolInitialized"
		}
		states = append(states, map[string]any{"ssName": fmt.Sprintf("%s-%v", object.GetName(), fields["name"]), "state": state})
	}
	current, available := "Initialized", servers
	switch now {
	case creating:
		current, available = "Provisioning initial users", 0
	case failed:
		current, available = "Different versions across MinIO Pools", 0
	case down:
		available = servers - 1
	}
	return o.writeStatus(ctx, object, map[string]any{
		"currentState": current, "availableReplicas": available, "pools": states, "certificates": map[string]any{"autoCertEnabled": false},
		"revision": int64(0), "syncVersion": "v6.0.0",
	})
}

func (o *Operators) simulateHarbor(ctx context.Context, object *unstructured.Unstructured, now stage) error {
	generation := object.GetGeneration()
	condition := func(kind string, is bool, reason, message string) map[string]any {
		status := metav1.ConditionFalse
		if is {
			status = metav1.ConditionTrue
		}
		return map[string]any{"type": kind, "status": string(status), "reason": reason, "message": message}
	}
	conditions := []any{condition("Failed", now == failed, "ComponentsNotReady", "core does not start"), condition("InProgress", now == creating || now == down, "dependencyStatus", "waiting for core")}
	return o.writeStatus(ctx, object, map[string]any{"observedGeneration": generation, "conditions": conditions})
}

// simulateJob simulates the Job controller.
func (o *Operators) simulateJob(ctx context.Context, object *unstructured.Unstructured, now stage) error {
	job := &batchv1.Job{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, job); err != nil {
		return err
	}
	if len(job.Status.Conditions) > 0 || now != ready && now != failed {
		return nil
	}
	at := metav1.Now()
	ends := []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	job.Status = batchv1.JobStatus{StartTime: &at, CompletionTime: &at}
	if now == failed {
		ends = []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
		job.Status.CompletionTime = nil
	}
	for _, end := range ends {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: end, Status: corev1.ConditionTrue, Reason: "Simulated", LastTransitionTime: at, LastProbeTime: at,
		})
	}
	return o.client.Status().Update(ctx, job)
}

// writeStatus writes the status of an object if it differs.
func (o *Operators) writeStatus(ctx context.Context, object *unstructured.Unstructured, status map[string]any) error {
	before, _, _ := unstructured.NestedMap(object.Object, "status")
	if equality.Semantic.DeepEqual(before, status) {
		return nil
	}
	object.Object["status"] = status
	return o.client.Status().Update(ctx, object)
}

func (o *Operators) create(ctx context.Context, object client.Object) error {
	err := o.client.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// claim creates the claim of the first replica of an object, with the labels by which its StatefulSet selects pods.
func (o *Operators) claim(ctx context.Context, object client.Object, name string, labels map[string]string) error {
	return o.create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: name, Labels: labels},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	})
}

// cleanUp deletes the objects that an operator created for a deleted object. Claims stay, as with the real operators.
func (o *Operators) cleanUp(ctx context.Context, simulated item) error {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: simulated.namespace, Name: name}
	}
	var created []client.Object
	switch simulated.kind {
	case Postgresql:
		created = []client.Object{&corev1.Secret{ObjectMeta: meta("harbor." + simulated.name + ".credentials.postgresql.acid.zalan.do")}}
	case RedisFailover:
		created = []client.Object{&appsv1.StatefulSet{ObjectMeta: meta("rfr-" + simulated.name)}, &appsv1.Deployment{ObjectMeta: meta("rfs-" + simulated.name)}}
	}
	for _, object := range created {
		if err := client.IgnoreNotFound(o.client.Delete(ctx, object)); err != nil {
			return err
		}
	}
	return nil
}
