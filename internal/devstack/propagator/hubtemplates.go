package propagator

import (
	"context"
	"fmt"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// annotationTemplateError is on a template of a replica whose hub templates could not be resolved.
const annotationTemplateError = "policy.open-cluster-management.io/hub-templates-error"

// hasHubTemplates reports whether the templates of a policy depend on objects of the hub, or on the cluster.
func hasHubTemplates(templates []any) bool {
	text, _ := yaml.Marshal(templates)
	return strings.Contains(string(text), "{{hub")
}

// resolve returns the templates of a policy for a cluster. A template that cannot be resolved stays as it is, with the annotation; failure is the error.
func (p *Propagator) resolve(ctx context.Context, namespace, cluster string, templates []any) (resolved []any, failure string) {
	for _, one := range templates {
		var made map[string]any
		text, _ := yaml.Marshal(one)
		parsed, err := template.New("").Delims("{{hub", "hub}}").Option("missingkey=error").Funcs(template.FuncMap{
			"fromConfigMap": func(from, name, key string) (string, error) { return p.fromConfigMap(ctx, namespace, from, name, key) },
		}).Parse(string(text))
		if err == nil {
			var out strings.Builder
			if err = parsed.Execute(&out, map[string]string{"ManagedClusterName": cluster}); err == nil {
				err = yaml.Unmarshal([]byte(out.String()), &made)
			}
		}
		if err != nil {
			failure = err.Error()
			_ = yaml.Unmarshal(text, &made)
			_ = unstructured.SetNestedField(made, failure, "objectDefinition", "metadata", "annotations", annotationTemplateError)
		}
		resolved = append(resolved, made)
	}
	return resolved, failure
}

// fromConfigMap looks up a value. Templates may only read objects of the namespace of their policy.
func (p *Propagator) fromConfigMap(ctx context.Context, policyNamespace, namespace, name, key string) (string, error) {
	if namespace != "" && namespace != policyNamespace {
		return "", fmt.Errorf("the namespace argument passed to fromConfigMap is restricted to %s", policyNamespace)
	}
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(configMapKind)
	if err := p.objects.Get(ctx, client.ObjectKey{Namespace: policyNamespace, Name: name}, found); err != nil {
		return "", err
	}
	value, _, _ := unstructured.NestedString(found.Object, "data", key)
	return value, nil
}
