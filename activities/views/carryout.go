package views

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/views"
)

// CarryOut creates an action, unless the hub has one of this type for the object already, and returns it with its outcome. It deletes an action that is done; the hub
// does that a minute later. An action that was deleted before its outcome was read is created again, so it must be one that may be repeated. mayCreate returns an
// error if none may be created now. The reader may be a cache that lags.
func CarryOut(ctx context.Context, hub *kube.Cluster, reader client.Reader, owner Owner, action *unstructured.Unstructured, mayCreate func(context.Context) error) (*unstructured.Unstructured, views.Outcome, error) {
	found, err := owner.existing(ctx, hub, reader, action)
	if err == nil && found == nil {
		if err = mayCreate(ctx); err == nil {
			found, err = owner.existing(ctx, hub, hub.Client, action)
		}
	}
	if err == nil && found == nil {
		found, err = action, Create(ctx, hub, action, owner)
	}
	if err != nil {
		return nil, views.Outcome{}, err
	}
	outcome := views.OutcomeOf(found)
	if outcome.Done {
		err = Delete(ctx, hub, found)
	}
	return found, outcome, err
}

// existing returns the action for the same object; nil: there is none. It deletes one of another type.
func (owner Owner) existing(ctx context.Context, hub *kube.Cluster, reader client.Reader, action *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	found, err := owner.get(ctx, reader, views.Actions, client.ObjectKeyFromObject(action))
	if err != nil || found == nil || views.TypeOf(found) == views.TypeOf(action) {
		return found, err
	}
	return nil, Delete(ctx, hub, found)
}
