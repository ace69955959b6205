package kube

import (
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
)

// NewScheme returns the kinds that Drydock reads and writes as Go types: those of Kubernetes and of internal/apis.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(
		clientgoscheme.AddToScheme(scheme),
		drydockv1.AddToScheme(scheme),
		goharborv1.AddToScheme(scheme),
		lcmv1.AddToScheme(scheme),
		maintenancev1.AddToScheme(scheme),
		ranv1.AddToScheme(scheme),
		sreportalv1.AddToScheme(scheme),
	)
	return scheme, err
}

// sharedScheme is the scheme of all clusters.
var sharedScheme = sync.OnceValues(NewScheme)
