// Package precache holds the decisions of precaching and backups before a rollout: the content to pull, the Jobs, and the result. Every function is
// pure.
package precache

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// DefaultSpaceRequired is the disk space that precaching needs on a cluster by default.
const DefaultSpaceRequired = "35 GiB"

// Field is a field of the precached content, by its name in the API.
type Field string

// The fields. PreCacheImage is the image of the Job.
const (
	PlatformImage                Field = "platformImage"
	OperatorsIndexes             Field = "operatorsIndexes"
	OperatorsPackagesAndChannels Field = "operatorsPackagesAndChannels"
	ExcludePrecachePatterns      Field = "excludePrecachePatterns"
	SpaceRequired                Field = "spaceRequired"
	AdditionalImages             Field = "additionalImages"
	PreCacheImage                Field = "preCacheImage"
)

// Fields returns all fields, in the order of the API.
func Fields() []Field {
	return []Field{PlatformImage, OperatorsIndexes, OperatorsPackagesAndChannels, ExcludePrecachePatterns, SpaceRequired, AdditionalImages, PreCacheImage}
}

// Setting is a value of the precached content, and the object that sets it.
type Setting struct {
	Value string
	// Source is the object, such as "policy ztp/du", and Path the place in it.
	Source, Path string
	// Unknown is why the value cannot be derived; empty: it is known.
	Unknown string
	// Unchanged: the rollout does not change this catalog. It is only needed for packages.
	Unchanged bool
}

// problem is what is wrong with a setting.
func (s Setting) problem(text string) string { return s.Source + ": " + text }

// Derived is the content that the policies of a rollout name.
type Derived struct {
	// Platform is the release image; nil: none. Pending: it has not been looked up yet.
	Platform *Setting
	Pending  bool
	Indexes  []Setting
	Packages []Setting
}

// of returns the settings of a field.
func (d Derived) of(name Field) []Setting {
	switch {
	case name == PlatformImage && d.Platform != nil:
		return []Setting{*d.Platform}
	case name == OperatorsIndexes:
		return d.Indexes
	case name == OperatorsPackagesAndChannels:
		return d.Packages
	}
	return nil
}

// Content is the precached content.
type Content struct {
	Spec ranv1.PrecachingSpec
	// JobImage is the image of the Jobs; empty: the default of the workers.
	JobImage string
	// Sources are the objects that set a field.
	Sources map[Field]string
	// Notes say what is not pulled. Problems are why the content is not complete.
	Notes, Problems []string
}

// SpecOf returns the content that a rollout pulls. Overrides replace what was derived, field by field.
func SpecOf(overrides Overrides, derived Derived) Content {
	content := Content{Sources: map[Field]string{}}
	settings := map[Field][]Setting{}
	for _, name := range Fields() {
		settings[name] = derived.of(name)
		if replaced := overrides.of(name); len(replaced) > 0 {
			settings[name] = replaced
		}
	}
	if len(settings[OperatorsPackagesAndChannels]) == 0 {
		settings[OperatorsIndexes] = slices.DeleteFunc(slices.Clone(settings[OperatorsIndexes]), func(s Setting) bool { return s.Unchanged })
	}
	if unused := content.checkOperators(settings[OperatorsIndexes], settings[OperatorsPackagesAndChannels]); unused {
		delete(settings, OperatorsPackagesAndChannels)
	}
	values := map[Field][]string{}
	for _, name := range Fields() {
		values[name] = content.read(name, settings[name])
	}
	content.Spec = ranv1.PrecachingSpec{
		PlatformImage:                first(values[PlatformImage]),
		OperatorsIndexes:             values[OperatorsIndexes],
		OperatorsPackagesAndChannels: values[OperatorsPackagesAndChannels],
		ExcludePrecachePatterns:      values[ExcludePrecachePatterns],
		SpaceRequired:                first(values[SpaceRequired]),
		AdditionalImages:             values[AdditionalImages],
	}
	content.JobImage = first(values[PreCacheImage])
	if len(settings[PlatformImage])+len(settings[OperatorsIndexes])+len(settings[AdditionalImages]) == 0 && !derived.Pending {
		content.Problems = append(content.Problems, "inconsistent precaching configuration: no software spec provided: no policy of the rollout has a release, or a catalog with packages; "+
			"set overrides or additionalImages in a PreCachingConfig")
	}
	return content
}

// checkOperators checks that packages and catalogs belong together. It reports whether the packages are not pulled.
func (c *Content) checkOperators(indexes, packages []Setting) (unused bool) {
	switch {
	case len(indexes) > 0 && len(packages) == 0:
		c.Problems = append(c.Problems, fmt.Sprintf("inconsistent precaching configuration: olm index provided, but no packages: no policy of the rollout has a Subscription for the catalog of %s; "+
			"set spec.overrides.operatorsPackagesAndChannels of a PreCachingConfig", sourcesOf(indexes)))
	case len(indexes) > 0 || len(packages) == 0:
	case strings.HasPrefix(packages[0].Source, sourceConfig):
		missing := field.Required(field.NewPath(pathOf(OperatorsIndexes)), "which catalogs are the operatorsPackagesAndChannels in? No policy of the rollout has a CatalogSource with an image")
		c.Problems = append(c.Problems, packages[0].problem(missing.Error()))
	default:
		c.Notes = append(c.Notes, fmt.Sprintf("the operators of %s are not pulled, because no policy of the rollout has a CatalogSource with an image: set spec.overrides.operatorsIndexes of a PreCachingConfig",
			sourcesOf(packages)))
		return true
	}
	return false
}

// read returns the different values of a field, and records their sources and problems.
func (c *Content) read(name Field, settings []Setting) []string {
	if name == SpaceRequired && len(settings) == 0 {
		settings = []Setting{{Value: DefaultSpaceRequired, Source: "default"}}
	}
	var values []string
	for _, setting := range settings {
		value, problem := parse(name, setting.Path, setting.Value)
		switch {
		case setting.Unknown != "":
			c.Problems = append(c.Problems, setting.problem(fmt.Sprintf("%s %s: set %s of a PreCachingConfig", setting.Path, setting.Unknown, pathOf(name))))
		case problem != nil:
			c.Problems = append(c.Problems, setting.problem(problem.Error()))
		case !slices.Contains(values, value):
			values = append(values, value)
		}
	}
	if len(settings) > 0 {
		c.Sources[name] = sourcesOf(settings)
	}
	return values
}

// sourcesOf joins the objects of settings.
func sourcesOf(settings []Setting) string {
	var sources []string
	for _, setting := range settings {
		if !slices.Contains(sources, setting.Source) {
			sources = append(sources, setting.Source)
		}
	}
	return strings.Join(sources, ", ")
}

func first(values []string) string { return strings.Join(values[:min(1, len(values))], "") }

// CheckConfig returns the invalid fields of a PreCachingConfig.
func CheckConfig(config *ranv1.PreCachingConfigSpec) field.ErrorList {
	var invalid field.ErrorList
	for _, name := range Fields() {
		for _, setting := range configured(config, name) {
			if _, problem := parse(name, setting.Path, setting.Value); problem != nil {
				invalid = append(invalid, problem)
			}
		}
	}
	return invalid
}

// configured returns the settings of a field in a PreCachingConfig.
func configured(config *ranv1.PreCachingConfigSpec, name Field) []Setting {
	o := config.Overrides
	text := map[Field]string{PlatformImage: o.PlatformImage, PreCacheImage: o.PreCacheImage, SpaceRequired: config.SpaceRequired}
	lists := map[Field][]string{
		OperatorsIndexes: o.OperatorsIndexes, OperatorsPackagesAndChannels: o.OperatorsPackagesAndChannels,
		ExcludePrecachePatterns: config.ExcludePrecachePatterns, AdditionalImages: config.AdditionalImages,
	}
	path := field.NewPath(pathOf(name))
	if text[name] != "" {
		return []Setting{{Value: text[name], Path: path.String()}}
	}
	var settings []Setting
	for i, value := range lists[name] {
		settings = append(settings, Setting{Value: value, Path: path.Index(i).String()})
	}
	return settings
}

// pathOf is the path of a field in a PreCachingConfig.
func pathOf(name Field) string {
	switch name {
	case PlatformImage, OperatorsIndexes, OperatorsPackagesAndChannels, PreCacheImage:
		return "spec.overrides." + string(name)
	}
	return "spec." + string(name)
}

// Sources of overrides, with the name of the object after them.
const (
	sourceConfig    = "PreCachingConfig "
	sourceConfigMap = "ConfigMap "
)

// OverridesName is the name of the ConfigMap with overrides in the namespace of a rollout, as in TALM.
const OverridesName = "cluster-group-upgrade-overrides"

// Overrides replace what the policies of a rollout name.
type Overrides struct {
	// Config wins over ConfigMap. It may be nil. ConfigName and ConfigMapName are namespace/name.
	Config        *ranv1.PreCachingConfigSpec
	ConfigName    string
	ConfigMap     map[string]string
	ConfigMapName string
}

// Set reports whether a field is replaced.
func (o Overrides) Set(name Field) bool { return len(o.of(name)) > 0 }

// of returns the settings that replace a field.
func (o Overrides) of(name Field) []Setting {
	var settings []Setting
	if o.Config != nil {
		settings = configured(o.Config, name)
		for i := range settings {
			settings[i].Source = sourceConfig + o.ConfigName
		}
	}
	if len(settings) > 0 {
		return settings
	}
	key := keyOf(name)
	text, path := strings.TrimSpace(o.ConfigMap[key]), field.NewPath("data").Key(key).String()
	lines := []string{text}
	if name == OperatorsIndexes || name == OperatorsPackagesAndChannels || name == ExcludePrecachePatterns {
		lines = strings.Split(text, "\n")
	}
	for _, line := range lines {
		if value := strings.TrimSpace(line); value != "" {
			settings = append(settings, Setting{Value: value, Source: sourceConfigMap + o.ConfigMapName, Path: path})
		}
	}
	return settings
}

// keyOf is the key of a field in the ConfigMap; empty: it has none.
func keyOf(name Field) string {
	return map[Field]string{
		PlatformImage: "platform.image", OperatorsIndexes: "operators.indexes", OperatorsPackagesAndChannels: "operators.packagesAndChannels",
		ExcludePrecachePatterns: "excludePrecachePatterns", SpaceRequired: "precache.spaceRequired", PreCacheImage: "precache.image",
	}[name]
}

// PathIn is the path of a field in the object that sets it, or that may set it.
func PathIn(source string, name Field) *field.Path {
	if strings.HasPrefix(source, sourceConfigMap) {
		return field.NewPath("data").Key(keyOf(name))
	}
	return field.NewPath(pathOf(name))
}
