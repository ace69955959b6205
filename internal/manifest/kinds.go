package manifest

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/deploy/crds"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
)

// kind is a kind of object that users write: its Go type and the rules of its CRD.
type kind struct {
	gvk        schema.GroupVersionKind
	namespaced bool
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
	// ruleMessages are the messages of the CEL rules.
	ruleMessages map[string]bool
}

// kinds holds the kinds that users write.
type kinds struct {
	scheme *runtime.Scheme
	// rules are compiled for a kind with its first object.
	rules map[schema.GroupVersionKind]func() (*kind, error)
}

// allKinds reads the kinds once in a process: their CRDs are part of the program. They are safe for concurrent use.
var allKinds = sync.OnceValues(readKinds)

func readKinds() (*kinds, error) {
	k := &kinds{scheme: runtime.NewScheme(), rules: map[schema.GroupVersionKind]func() (*kind, error){}}
	for _, add := range []func(*runtime.Scheme) error{ranv1.AddToScheme, maintenancev1.AddToScheme, lcmv1.AddToScheme, drydockv1.AddToScheme, goharborv1.AddToScheme, sreportalv1.AddToScheme} {
		if err := add(k.scheme); err != nil {
			return nil, fmt.Errorf("register kinds: %w", err)
		}
	}
	files, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		var crd apiextensionsv1.CustomResourceDefinition
		text, err := fs.ReadFile(crds.Files, file)
		if err != nil {
			return nil, err
		}
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		for _, version := range crd.Spec.Versions {
			gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
			k.rules[gvk] = sync.OnceValues(func() (*kind, error) { return newKind(gvk, crd.Spec.Scope, version) })
		}
	}
	return k, nil
}

// find returns the rules of a kind, or an error that names the known kinds.
func (k *kinds) find(gvk schema.GroupVersionKind) (*kind, error) {
	if rules, known := k.rules[gvk]; known {
		return rules()
	}
	var known []string
	for other := range k.rules {
		if other.Kind == gvk.Kind {
			return nil, fmt.Errorf("kind %s is read as %s, not as %s", gvk.Kind, other.GroupVersion(), gvk.GroupVersion())
		}
		known = append(known, other.Kind+" ("+other.GroupVersion().String()+")")
	}
	slices.Sort(known)
	return nil, fmt.Errorf("kind %s of %s is not one that Drydock reads; it reads %s", gvk.Kind, gvk.GroupVersion(), strings.Join(known, ", "))
}

func newKind(gvk schema.GroupVersionKind, scope apiextensionsv1.ResourceScope, version apiextensionsv1.CustomResourceDefinitionVersion) (*kind, error) {
	props, structural, err := schemaOf(gvk, version)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", gvk.Kind, err)
	}
	k := &kind{
		gvk:          gvk,
		namespaced:   scope == apiextensionsv1.NamespaceScoped,
		structural:   structural,
		schema:       validator,
		rules:        cel.NewValidator(structural, true, celconfig.PerCallLimit),
		ruleMessages: map[string]bool{},
	}
	visitor := structuralschema.Visitor{Structural: func(s *structuralschema.Structural) bool {
		for _, rule := range s.XValidations {
			k.ruleMessages[rule.Message] = true
		}
		return false
	}}
	visitor.Visit(structural)
	return k, nil
}

// schemaOf returns the schema of a version of a CRD.
func schemaOf(gvk schema.GroupVersionKind, version apiextensionsv1.CustomResourceDefinitionVersion) (*apiextensions.JSONSchemaProps, *structuralschema.Structural, error) {
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, props, nil); err != nil {
		return nil, nil, fmt.Errorf("schema of %s: %w", gvk.Kind, err)
	}
	structural, err := structuralschema.NewStructural(props)
	if err != nil {
		return nil, nil, fmt.Errorf("schema of %s: %w", gvk.Kind, err)
	}
	return props, structural, nil
}

// Prune removes the fields that a CRD in a cluster does not have, because someone else's CRD may have fewer than Drydock's.
func Prune(definition *apiextensionsv1.CustomResourceDefinition, object *unstructured.Unstructured) error {
	gvk := object.GroupVersionKind()
	for _, version := range definition.Spec.Versions {
		if version.Name != gvk.Version || version.Schema == nil {
			continue
		}
		_, structural, err := schemaOf(gvk, version)
		if err != nil {
			return err
		}
		pruning.Prune(object.Object, structural, true)
		return nil
	}
	return fmt.Errorf("CRD %s has no version %s", definition.Name, gvk.Version)
}

// prune removes the fields that the schema does not have and returns their paths.
func (k *kind) prune(object map[string]any) []string {
	unknown := pruning.PruneWithOptions(object, k.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(object, k.structural)
	return unknown
}

// setDefaults sets the defaults of absent fields.
func (k *kind) setDefaults(object map[string]any) { defaulting.Default(object, k.structural) }

// validate checks the object against the schema and the CEL rules. The API server does not run the rules on an object with wrong types. Here they
// run, so that all problems are reported together, but then only broken rules count.
func (k *kind) validate(object map[string]any) (shape, rules field.ErrorList) {
	shape = validation.ValidateCustomResource(nil, object, k.schema)
	shape = append(shape, listtype.ValidateListSetsAndMaps(nil, k.structural, object)...)
	if k.rules == nil {
		return shape, nil
	}
	rules, _ = k.rules.Validate(context.Background(), nil, k.structural, object, nil, celconfig.RuntimeCELCostBudget)
	if len(shape) > 0 {
		rules = k.broken(rules)
	}
	return shape, rules
}

// broken returns the errors of rules that are broken, without those of rules that could not be evaluated.
func (k *kind) broken(rules field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(rules, func(err *field.Error) bool { return !k.ruleMessages[err.Detail] })
}
