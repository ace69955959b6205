package harbor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
)

// Removal lists the objects of a part that are deleted with its HarborCluster, in this order.
type Removal struct {
	// Kept must not be deleted, even if the HarborCluster owns it.
	Kept []Object
	// Objects are deleted one after the other, each when the one before is gone.
	Objects []Object
	// Secrets, by name.
	Secrets []string
	// Claims are the labels of the claims that the part's operator has created; none: they stay.
	Claims map[string]string
}

// Object names an object in the HarborCluster's namespace.
type Object struct {
	Kind schema.GroupVersionKind
	Name string
}

// The claims of a StatefulSet have the labels of its pod selector, which the operator sets.
func postgresClaims(name string) map[string]string { return map[string]string{"cluster-name": name} }

func minioClaims(name string) map[string]string { return map[string]string{"v1.min.io/tenant": name} }

func redisClaims(name string) map[string]string {
	return map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/component": "redis", "app.kubernetes.io/part-of": "redis-failover"}
}

// RemovalOf returns the objects of a part to delete. Unless the data is to be deleted, it omits the services that hold data, and their passwords: the
// operator of the database deletes its claims with it, and a new HarborCluster with the same name finds everything unchanged.
func RemovalOf(hc *goharborv1.HarborCluster, part Part) Removal {
	var removal Removal
	names, data := ObjectsOf(hc), hc.Spec.DeletionPolicy == goharborv1.DeleteData
	service := func(kind schema.GroupVersionKind, name string, claims func(name string) map[string]string) {
		if name == "" {
			return
		}
		secrets := secretsOf(hc, part)
		if !data {
			removal.Kept = append(removal.Kept, Object{kind, name})
			for _, secret := range secrets {
				removal.Kept = append(removal.Kept, Object{Secret, secret})
			}
			return
		}
		removal.Objects = append(removal.Objects, Object{kind, name})
		removal.Claims = claims(name)
		removal.Secrets = append(removal.Secrets, secrets...)
	}
	switch part {
	case PartHarbor:
		removal.Objects = []Object{{Harbor, names.Harbor}}
		removal.Secrets = []string{databaseSecret(hc)}
		if minioOf(hc) != nil {
			removal.Secrets = append(removal.Secrets, minioName(hc))
		}
	case PartDatabase:
		service(Postgresql, names.Postgresql, postgresClaims)
	case PartCache:
		service(RedisFailover, names.RedisFailover, redisClaims)
	case PartStorage:
		if minioOf(hc) != nil {
			removal.Objects = []Object{{Job, names.BucketJob}, {Ingress, minioName(hc)}}
		}
		service(Tenant, names.Tenant, minioClaims)
	}
	return removal
}

// secretsOf are the Secrets that Drydock made for a service with data.
func secretsOf(hc *goharborv1.HarborCluster, part Part) []string {
	var names []string
	for _, credentials := range ManifestOf(hc, part).Credentials {
		names = append(names, credentials.Name)
	}
	if part == PartStorage && minioOf(hc) != nil {
		names = append(names, minioConfiguration(hc))
	}
	return names
}

// ReasonRemoving: objects of a deleted HarborCluster are being removed.
const ReasonRemoving = "Removing"

// BeingRemoved is the status of a HarborCluster that is being deleted, while Harbor is removed. The conditions of the other services stay as last
// observed.
func BeingRemoved(status goharborv1.HarborClusterStatus, generation int64, now time.Time) goharborv1.HarborClusterStatus {
	before, at := ConditionOf(status, goharborv1.ServiceReady), metav1.NewTime(now)
	if before.Reason == ReasonRemoving {
		return status
	}
	reported := *status.DeepCopy()
	reported.Status, reported.ObservedGeneration = goharborv1.StatusUnhealthy, generation
	removing := goharborv1.HarborClusterCondition{
		Type: goharborv1.ServiceReady, Status: metav1.ConditionFalse, Reason: ReasonRemoving, Message: "the HarborCluster is being deleted, and Harbor with it",
		LastTransitionTime: &at, ObservedGeneration: generation, FirstReadyTime: before.FirstReadyTime,
	}
	if i := slices.IndexFunc(reported.Conditions, func(c goharborv1.HarborClusterCondition) bool { return c.Type == goharborv1.ServiceReady }); i >= 0 {
		reported.Conditions[i] = removing
	} else {
		reported.Conditions = append(reported.Conditions, removing)
	}
	return reported
}

// DeletionWait is the wait for an object that is being deleted, with what delays it.
func DeletionWait(object *metav1.PartialObjectMetadata) *drydockv1.Wait {
	message := fmt.Sprintf("%s %s/%s is being deleted", object.Kind, object.Namespace, object.Name)
	if held := object.GetFinalizers(); len(held) > 0 {
		message += "; it waits for finalizers: " + strings.Join(held, ", ")
	}
	wait := &drydockv1.Wait{Reason: ReasonRemoving, Message: message, Blockers: []drydockv1.Blocker{{
		Kind: object.Kind, Namespace: object.Namespace, Name: object.Name, Reason: ReasonRemoving, Message: message, Since: object.DeletionTimestamp,
	}}}
	if object.DeletionTimestamp != nil {
		wait.Since = *object.DeletionTimestamp
	}
	return wait
}
