package harbor

import (
	"context"
	"hash/crc32"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/events"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// announce records Events on a HarborCluster for the conditions that a status has made True or False, such as DatabaseReady and DatabaseNotReady.
func announce(ctx context.Context, cluster *kube.Cluster, before, written *goharborv1.HarborCluster) {
	var changes []events.ObjectEvent
	for _, now := range written.Status.Conditions {
		was := harbor.ConditionOf(before.Status, now.Type)
		if now.Status == was.Status || now.Status == metav1.ConditionUnknown {
			continue
		}
		event := events.ObjectEvent{Reason: string(now.Type), Message: now.Message, At: time.Now()}
		if now.Status == metav1.ConditionFalse {
			event.Warning, event.Reason = true, strings.Replace(string(now.Type), "Ready", "NotReady", 1)
		}
		if event.Message == "" {
			event.Message = now.Reason
		}
		// There is one write of each version of the object, and one Event of each type in it.
		event.Number = int32(crc32.ChecksumIEEE([]byte(written.ResourceVersion+event.Reason)) >> 1)
		changes = append(changes, event)
	}
	events.RecordOn(ctx, cluster, temporal.Object{
		Cluster: cluster.Name, APIVersion: goharborv1.GroupVersion.String(), Kind: "HarborCluster",
		Namespace: written.Namespace, Name: written.Name, UID: written.UID,
	}, changes)
}
