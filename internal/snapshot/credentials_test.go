package snapshot_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/health"
	"drydock.dev/drydock/internal/snapshot"
)

// secrets are the Secrets of a cluster by namespace and name.
type secrets map[client.ObjectKey]*corev1.Secret

func (s secrets) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	found, known := s[key]
	if !known {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	found.DeepCopyInto(into.(*corev1.Secret))
	return nil
}

func (secrets) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func TestASecretIsSentOnlyToItsHosts(t *testing.T) {
	of := func(hosts string, keys ...string) *corev1.Secret {
		secret := &corev1.Secret{Data: map[string][]byte{}}
		secret.Annotations = map[string]string{drydockv1.AnnotationHosts: hosts}
		for _, key := range keys {
			secret.Data[key] = []byte("hunter2@" + key)
		}
		return secret
	}
	cluster := secrets{
		{Namespace: "drydock-health-checks", Name: "shop"}:    of("other.example, shop.example:8443", "username", "password"),
		{Namespace: "drydock-health-checks", Name: "nowhere"}: of("", "username", "password"),
		{Namespace: "drydock-health-checks", Name: "half"}:    of("shop.example:8443", "username"),
		{Namespace: "drydock-system", Name: "worker-token"}:   of("shop.example:8443", "username", "password"),
	}
	const key = "no request is sent: the annotation drydock.dev/hosts of Secret drydock-health-checks/"
	for _, test := range []struct{ name, secret, address, sent, refused string }{
		{name: "no Secret", address: "http://shop.example:8443/x?y=z", sent: "http://shop.example:8443/x?y=z"},
		{name: "a host of the Secret", secret: "shop", address: "https://shop.example:8443/x?y=z", sent: "https://hunter2%40username:hunter2%40password@shop.example:8443/x?y=z"},
		{name: "another host", secret: "shop", address: "https://evil.example:8443/", refused: key + "shop does not list evil.example:8443"},
		{name: "another port", secret: "shop", address: "https://shop.example/", refused: key + "shop does not list shop.example"},
		{name: "a host that looks like it", secret: "shop", address: "https://shop.example:8443@evil.example/", refused: key + "shop does not list evil.example"},
		{name: "a Secret that names no host", secret: "nowhere", address: "https://shop.example:8443/", refused: key + "nowhere does not list shop.example:8443"},
		{name: "a Secret of another kind", secret: "half", address: "https://shop.example:8443/", refused: "secret drydock-health-checks/half must have the keys username and password"},
		{name: "a Secret of another namespace", secret: "worker-token", address: "https://shop.example:8443/", refused: `read Secret drydock-health-checks/worker-token: secrets "worker-token" not found`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var sent string
			evidence := snapshot.NewEvidence(t.Context(), cluster, nil, func(_ context.Context, address string) (health.Answer, error) {
				sent = address
				return health.Answer{Status: 200}, nil
			})
			var secret *drydockv1.HealthCheckSecret
			if test.secret != "" {
				secret = &drydockv1.HealthCheckSecret{Name: test.secret}
			}
			_, err := evidence.Fetch(test.address, secret)
			require.Equal(t, test.sent, sent)
			if test.refused == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, health.ErrNoCredentials)
			require.ErrorContains(t, err, test.refused)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}
