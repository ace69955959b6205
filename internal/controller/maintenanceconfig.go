package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drydock.dev/drydock/activities/events"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// maintenanceConfigs is the kind MaintenanceOperatorConfig. Schedulers read it themselves; its controller only reports objects that do not count.
func maintenanceConfigs() kind {
	return kind{
		name:     "MaintenanceOperatorConfig",
		resource: maintenancev1.GroupVersion.WithResource("maintenanceoperatorconfigs").GroupResource(),
		gvk:      maintenancev1.GroupVersion.WithKind("MaintenanceOperatorConfig"),
		watch: func(cluster *kube.Cluster, options Options) (*controller, error) {
			configs := kindSource(cluster.Cache, &maintenancev1.MaintenanceOperatorConfig{},
				&handler.TypedEnqueueRequestForObject[*maintenancev1.MaintenanceOperatorConfig]{}, created[*maintenancev1.MaintenanceOperatorConfig]())
			c := newController("MaintenanceOperatorConfig", &maintenanceConfig{cluster}, options, configs)
			c.idle = func(context.Context) bool { return true }
			return c, nil
		},
	}
}

// maintenanceConfig reconciles MaintenanceOperatorConfigs of one cluster.
type maintenanceConfig struct{ cluster *kube.Cluster }

// Reconcile records an Event on an object that does not count.
func (r *maintenanceConfig) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var all maintenancev1.MaintenanceOperatorConfigList
	if err := r.cluster.Cache.List(ctx, &all); err != nil {
		return reconcile.Result{}, err
	}
	object := &maintenancev1.MaintenanceOperatorConfig{}
	if err := r.cluster.Cache.Get(ctx, request.NamespacedName, object); err != nil {
		if apierrors.IsNotFound(err) {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, err
	}
	message := r.ignored(object, all.Items)
	if message == "" {
		return reconcile.Result{}, nil
	}
	of := temporal.Object{
		Cluster: r.cluster.Name, APIVersion: maintenancev1.GroupVersion.String(), Kind: "MaintenanceOperatorConfig",
		Namespace: object.Namespace, Name: object.Name, UID: object.UID,
	}
	events.RecordOn(ctx, r.cluster, of, []events.ObjectEvent{{Number: 1, Warning: true, Reason: "Ignored", Message: message, At: time.Now()}})
	return reconcile.Result{}, nil
}

// ignored returns why an object does not count; "" if it does.
func (r *maintenanceConfig) ignored(object *maintenancev1.MaintenanceOperatorConfig, all []maintenancev1.MaintenanceOperatorConfig) string {
	counts := func(key types.NamespacedName) bool {
		named := r.cluster.MaintenanceConfig
		return key.Namespace == named.Namespace && (named.Name == "" || key.Name == named.Name)
	}
	if !counts(kubeclient.ObjectKeyFromObject(object)) {
		return fmt.Sprintf("ignored: the worker reads its budgets from %s (--maintenance-config)", strings.TrimSuffix(r.cluster.MaintenanceConfig.String(), "/"))
	}
	var names []string
	for i := range all {
		if key := kubeclient.ObjectKeyFromObject(&all[i]); counts(key) {
			names = append(names, key.String())
		}
	}
	if len(names) > 1 {
		return "no maintenance gets a slot while there are several: " + strings.Join(names, ", ") + "; delete all but one, or name one with --maintenance-config of drydock-worker"
	}
	return ""
}
