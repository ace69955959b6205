package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/installplans"
	"drydock.dev/drydock/internal/precache"
)

// PreCachingConfigOf is the name of the PreCachingConfig of a rollout; false: the rollout needs none, or names none.
func PreCachingConfigOf(cgu *ranv1.ClusterGroupUpgrade) (types.NamespacedName, bool) {
	ref := cgu.Spec.PreCachingConfigRef
	if !cgu.Spec.PreCaching || ref == nil || ref.Name == "" {
		return types.NamespacedName{}, false
	}
	name := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	if name.Namespace == "" {
		name.Namespace = cgu.Namespace
	}
	return name, true
}

// PreCachingOverridesOf is the name of the ConfigMap with the overrides of a rollout.
func PreCachingOverridesOf(cgu *ranv1.ClusterGroupUpgrade) types.NamespacedName {
	return types.NamespacedName{Namespace: cgu.Namespace, Name: precache.OverridesName}
}

// overridesOf returns what replaces the content that the policies of a rollout name.
func overridesOf(cgu *ranv1.ClusterGroupUpgrade, inventory Inventory) precache.Overrides {
	overrides := precache.Overrides{
		Config: inventory.PreCachingConfig, ConfigMap: inventory.PreCachingOverrides, ConfigMapName: PreCachingOverridesOf(cgu).String(),
	}
	if name, named := PreCachingConfigOf(cgu); named {
		overrides.ConfigName = name.String()
	}
	return overrides
}

// derivesRelease reports whether the policies of a rollout determine the release image that is precached.
func derivesRelease(cgu *ranv1.ClusterGroupUpgrade, inventory Inventory) bool {
	_, named := PreCachingConfigOf(cgu)
	missing := named && inventory.PreCachingConfig == nil
	return !missing && !overridesOf(cgu, inventory).Set(precache.PlatformImage)
}

// precachedRelease is the release that a rollout precaches.
type precachedRelease struct {
	// image is the release image; nil: there is none, or it is not known.
	image *precache.Setting
	// lookedUp is the release if it needs an update graph.
	lookedUp *precache.LookedUp
	problems []string
}

// release returns the release that the policies for the upgrade request or, as in TALM, if none of them does, those that all clusters comply with. known is the
// release that was looked up.
func (c policyChoice) release(known *precache.LookedUp) precachedRelease {
	requesting := requestRelease(c.forUpgrade)
	problems := append(slices.Clone(c.platform), templatedFields(requesting)...)
	if len(requesting) == 0 {
		requesting = requestRelease(c.compliantBefore)
		if len(platformProblems(requesting))+len(templatedFields(requesting)) > 0 {
			return precachedRelease{} // no cluster needs it
		}
	}
	if len(problems) > 0 {
		return precachedRelease{problems: problems}
	}
	if image, source := requestedValue(requesting, ReleaseImage); image != "" {
		return precachedRelease{image: &precache.Setting{Value: image, Source: source, Path: "ClusterVersion: spec.desiredUpdate.image"}}
	}
	version, source := requestedValue(requesting, ReleaseVersion)
	if version == "" {
		return precachedRelease{}
	}
	found := &precache.LookedUp{Release: precache.Release{Version: version}}
	found.Upstream, _ = requestedValue(requesting, ReleaseUpstream)
	found.Channel, _ = requestedValue(requesting, ReleaseChannel)
	if known != nil && known.Release == found.Release {
		found = known
	}
	result := precachedRelease{lookedUp: found}
	switch {
	case found.Problem != "":
		result.problems = []string{fmt.Sprintf("%s (requested by %s): Drydock looks it up again; or set spec.overrides.platformImage of a PreCachingConfig", found.Problem, source)}
	case found.Image != "":
		result.image = &precache.Setting{Value: found.Image, Source: source + ", version " + version + " in the update graph"}
	}
	return result
}

// requestRelease returns the policies that set the release.
func requestRelease(all []Policy) []Policy {
	return slices.DeleteFunc(slices.Clone(all), func(p Policy) bool { return len(p.Releases) == 0 && !slices.Contains(p.Templated, clusterVersionKind) })
}

// templatedFields names the fields that determine the release and have templates.
func templatedFields(requesting []Policy) []string {
	const unsupported = "templatized ClusterVersion fields not supported with precaching: set spec.overrides.platformImage of a PreCachingConfig: "
	determine := []ReleaseField{ReleaseUpstream, ReleaseChannel, ReleaseVersion}
	if images, _ := requestedValues(requesting, ReleaseImage); len(images) > 0 {
		determine = []ReleaseField{ReleaseImage}
	}
	var problems []string
	for _, policy := range requesting {
		for _, name := range determine {
			if slices.ContainsFunc(policy.Releases, func(release Release) bool { return templated(release.Fields[name]) }) {
				problems = append(problems, fmt.Sprintf("%sthe %s in policy %s is a template", unsupported, name, policy))
			}
		}
		if slices.Contains(policy.Templated, clusterVersionKind) {
			problems = append(problems, fmt.Sprintf("%spolicy %s has a ClusterVersion in object-templates-raw with templates", unsupported, policy))
		}
	}
	return problems
}

// requestedValue returns the value of a field, and the policies that set it.
func requestedValue(requesting []Policy, name ReleaseField) (value, source string) {
	var names []string
	for _, policy := range requesting {
		for _, release := range policy.Releases {
			if found := release.Fields[name]; found != "" && !slices.Contains(names, policy.String()) {
				value, names = found, append(names, policy.String())
			}
		}
	}
	return value, sourcePolicy + strings.Join(names, ", ")
}

// sourcePolicy begins the source of a value that a policy names.
const sourcePolicy = "policy "

// derived returns the content that the policies of a rollout name. A catalog counts in any of them: all clusters may comply with its policy already.
func (c policyChoice) derived(release precachedRelease) precache.Derived {
	derived := precache.Derived{Platform: release.image, Pending: release.lookedUp != nil && release.image == nil}
	all := slices.Concat(c.forUpgrade, c.compliantBefore, c.enforcing)
	for i, policy := range all {
		unchanged := i >= len(c.forUpgrade)
		for _, catalog := range policy.Catalogs {
			found := precache.Setting{
				Value: catalog.Image, Source: sourcePolicy + policy.String(), Path: fmt.Sprintf("CatalogSource %s/%s: spec.image", catalog.Namespace, catalog.Name),
				Unchanged: unchanged,
			}
			if templated(catalog.Image) {
				found.Unknown = isTemplate
			}
			derived.Indexes = append(derived.Indexes, found)
		}
		for _, subscription := range policy.Subscriptions {
			if found, is := packageOf(policy, subscription, all); is {
				derived.Packages = append(derived.Packages, found)
			}
		}
		unknown := precache.Setting{Source: sourcePolicy + policy.String(), Path: "object-templates-raw", Unknown: "has templates, so what it sets cannot be derived"}
		if slices.Contains(policy.Templated, subscriptionKind) {
			derived.Packages = append(derived.Packages, unknown)
		}
		if unknown.Unchanged = unchanged; slices.Contains(policy.Templated, catalogKind) {
			derived.Indexes = append(derived.Indexes, unknown)
		}
	}
	return derived
}

// isTemplate is why a value cannot be derived.
const isTemplate = "is a template, so its value cannot be derived"

// packageOf returns the package and channel of a Subscription; false: it names no package, or another policy names its channel.
func packageOf(policy Policy, subscription Subscription, all []Policy) (found precache.Setting, is bool) {
	name, channel := subscription.Spec["name"], subscription.Spec[installplans.FieldChannel]
	found = precache.Setting{
		Value: name + ":" + channel, Source: sourcePolicy + policy.String(), Path: fmt.Sprintf("Subscription %s/%s: spec", subscription.Namespace, subscription.Name),
	}
	switch {
	case name == "":
		return found, false
	case templated(name):
		found.Path, found.Unknown = found.Path+".name", isTemplate
	case templated(channel):
		found.Path, found.Unknown = found.Path+".channel", isTemplate
	case channel == "" && hasChannel(name, all):
		return found, false
	case channel == "":
		found.Path, found.Unknown = found.Path+".channel", "is missing, and the default channel of the catalog is not known"
	}
	return found, true
}

// hasChannel reports whether a Subscription of the policies names the channel of a package.
func hasChannel(name string, all []Policy) bool {
	return slices.ContainsFunc(all, func(policy Policy) bool {
		return slices.ContainsFunc(policy.Subscriptions, func(subscription Subscription) bool {
			return subscription.Spec["name"] == name && subscription.Spec[installplans.FieldChannel] != ""
		})
	})
}

// setPrecaching sets the precached content, and reports whether planning continues.
func (p *Plan) setPrecaching(cgu *ranv1.ClusterGroupUpgrade, inventory Inventory, derived precache.Derived, now time.Time) bool {
	if name, named := PreCachingConfigOf(cgu); named && inventory.PreCachingConfig == nil {
		return p.JudgePrecaching(fmt.Sprintf("failed to get PreCachingConfig resource due to PreCachingConfig.ran.openshift.io %q not found; namespace: %s", name.Name, name.Namespace), now)
	}
	content := precache.SpecOf(overridesOf(cgu, inventory), derived)
	if len(content.Problems) > 0 {
		return p.JudgePrecaching(strings.Join(content.Problems, "; "), now)
	}
	p.Precaching, p.PreCacheImage, p.PrecachingSources = &content.Spec, content.JobImage, content.Sources
	p.JudgePrecaching("", now)
	if len(content.Notes) > 0 {
		p.SetCondition(ranv1.ConditionPrecacheSpecValid, metav1.ConditionTrue, ranv1.ReasonPrecacheSpecIsWellFormed, precacheSpecValid+"; "+strings.Join(content.Notes, "; "), now)
	}
	return true
}

// precacheSpecValid is the message about complete content.
const precacheSpecValid = "Precaching spec is valid and consistent"

// JudgePrecaching sets the condition PrecacheSpecValid. An empty problem means that it is valid.
func (p *Plan) JudgePrecaching(problem string, now time.Time) bool {
	v := verdict{
		condition: ranv1.ConditionPrecacheSpecValid, reason: ranv1.ReasonPrecacheSpecIsWellFormed,
		message: precacheSpecValid, good: true,
	}
	if problem != "" {
		v.reason, v.message, v.good = ranv1.ReasonPrecacheSpecIncomplete, "Precaching spec is incomplete: "+problem, false
	}
	return p.judge(v, now)
}
