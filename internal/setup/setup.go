package setup

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"drydock.dev/drydock/internal/kube"
)

// Result is what a step did.
type Result string

const (
	Added    Result = "added"
	UpToDate Result = "upToDate"
	// Kept: another client owns it.
	Kept Result = "kept"
)

// Step is a step of the preparation of a cluster.
type Step struct {
	What   string
	Result Result
	Note   string
}

// stepTimeout limits the time of one step: until the cluster serves a CRD.
const stepTimeout = time.Minute

// Cluster installs the CRDs of a site on a cluster, and on the hub creates the namespace of Drydock. It returns the completed steps, also if one failed.
func Cluster(ctx context.Context, config *rest.Config, where Site) ([]Step, error) {
	steps, err := installCRDs(ctx, config, where)
	if err != nil || where != Hub {
		return steps, err
	}
	created, err := createNamespace(ctx, config)
	if err != nil {
		return steps, err
	}
	return append(steps, created), nil
}

func installCRDs(ctx context.Context, config *rest.Config, where Site) ([]Step, error) {
	client, err := NewCRDs(config)
	if err != nil {
		return nil, err
	}
	wanted, err := Definitions(where)
	if err != nil {
		return nil, err
	}
	var steps []Step
	for _, definition := range wanted {
		step, err := installCRD(ctx, client, definition)
		if err != nil {
			return steps, err
		}
		steps = append(steps, step)
	}
	return steps, nil
}

func installCRD(ctx context.Context, client CRDs, definition *unstructured.Unstructured) (Step, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	step := Step{What: "CRD " + definition.GetName()}
	state, missing, err := client.Inspect(ctx, definition)
	if err != nil {
		return step, fmt.Errorf("get CRD %s: %w", definition.GetName(), err)
	}
	if state == Foreign {
		step.Result, step.Note = Kept, ForeignNote(missing)
		return step, nil
	}
	if err := client.Install(ctx, definition); err != nil {
		return step, fmt.Errorf("install CRD %s: %w", definition.GetName(), err)
	}
	step.Result = map[State]Result{Missing: Added, Ours: UpToDate}[state]
	return step, nil
}

// ForeignNote says of a CRD that another client created which fields it lacks.
func ForeignNote(missing []string) string {
	if len(missing) == 0 {
		return "another client created it"
	}
	const shown = 3
	if len(missing) > shown {
		missing = append(missing[:shown:shown], fmt.Sprintf("and %d more", len(missing)-shown))
	}
	return "another client created it, and it lacks these fields: " + strings.Join(missing, ", ")
}

// createNamespace creates the namespace of the hub in which Drydock saves holds and the final status of rollouts.
func createNamespace(ctx context.Context, config *rest.Config) (Step, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	step := Step{What: "namespace " + kube.SystemNamespace, Result: Added}
	namespaces, err := Namespaces(config)
	if err != nil {
		return step, err
	}
	namespace := &unstructured.Unstructured{}
	namespace.SetAPIVersion("v1")
	namespace.SetKind("Namespace")
	namespace.SetName(kube.SystemNamespace)
	_, err = namespaces.Create(ctx, namespace, metav1.CreateOptions{FieldManager: FieldManager})
	switch {
	case apierrors.IsAlreadyExists(err):
		step.Result = UpToDate
	case err != nil:
		return step, fmt.Errorf("create namespace %s: %w", kube.SystemNamespace, err)
	}
	return step, nil
}

// Namespaces returns the namespaces of a cluster.
func Namespaces(config *rest.Config) (dynamic.ResourceInterface, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")), nil
}
