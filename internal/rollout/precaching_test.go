package rollout_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/rollout"
)

// Objects that policies require.
const (
	graphVersion  = "{apiVersion: config.openshift.io/v1, kind: ClusterVersion, spec: {upstream: 'https://updates.example.com/graph', channel: stable-4.18, desiredUpdate: {version: 4.18.3}}}"
	imageVersion  = "{apiVersion: config.openshift.io/v1, kind: ClusterVersion, spec: {desiredUpdate: {image: 'release:4.18.3'}}}"
	catalogSource = "{apiVersion: operators.coreos.com/v1alpha1, kind: CatalogSource, metadata: {namespace: m, name: redhat}, spec: {image: 'redhat:4.18'}}"
	ptp           = "{apiVersion: operators.coreos.com/v1alpha1, kind: Subscription, metadata: {namespace: p, name: ptp}, spec: {name: ptp-operator, channel: stable}}"
	sriov         = "{apiVersion: operators.coreos.com/v1alpha1, kind: Subscription, metadata: {namespace: s, name: sriov}, spec: {name: sriov, channel: stable}}"
)

// requiring is a policy that requires objects.
func requiring(t *testing.T, name string, objects ...string) rollout.Policy {
	var templates []string
	for _, object := range objects {
		templates = append(templates, "{complianceType: musthave, objectDefinition: "+object+"}")
	}
	return templating(t, name, "object-templates: ["+strings.Join(templates, ", ")+"]")
}

// compliantWith is a policy that every cluster complies with.
func compliantWith(policy rollout.Policy) rollout.Policy {
	policy.Compliant = compliance{"c1": true}
	return policy
}

func precached(spec *ranv1.ClusterGroupUpgradeSpec) { spec.PreCaching = true }

// planOf plans a rollout with precaching of p1, p2 and p3.
func planOf(change func(*rollout.Inventory), policies ...rollout.Policy) rollout.Plan {
	inventory := withAll(policies)
	cgu := rolloutOf(1, []string{"c1"}, managing("p1", "p2", "p3"), precached)
	if change != nil {
		change(&inventory)
	}
	if inventory.PreCachingConfig != nil {
		cgu.Spec.PreCachingConfigRef = &ranv1.ObjectRef{Name: "telco"}
	}
	return rollout.NewPlan(cgu, inventory, noon)
}

func TestPrecachedContentIsDerivedFromPolicies(t *testing.T) {
	t.Run("of the upgrade first", func(t *testing.T) {
		plan := planOf(nil, compliantWith(requiring(t, "p1", catalogSource, ptp)), requiring(t, "p2", imageVersion, sriov, ptp))
		require.Empty(t, plan.Problems())
		require.Equal(t, &ranv1.PrecachingSpec{
			PlatformImage: "release:4.18.3", OperatorsIndexes: []string{"redhat:4.18"}, OperatorsPackagesAndChannels: []string{"sriov:stable", "ptp-operator:stable"}, SpaceRequired: "35",
		}, plan.Precaching)
		require.Equal(t, map[precache.Field]string{
			"platformImage": "policy default/p2", "operatorsIndexes": "policy default/p1", "operatorsPackagesAndChannels": "policy default/p2, policy default/p1", "spaceRequired": "default",
		}, plan.PrecachingSources)
		require.Nil(t, plan.Release, "an image needs no update graph")
	})
	t.Run("that enforce already", func(t *testing.T) {
		catalog := requiring(t, "p1", catalogSource)
		catalog.Enforces = true
		require.Equal(t, []string{"redhat:4.18"}, planOf(nil, catalog, requiring(t, "p2", ptp)).Precaching.OperatorsIndexes)
	})
	t.Run("the release for the upgrade wins", func(t *testing.T) {
		older := compliantWith(requiring(t, "p1", strings.Replace(imageVersion, "4.18.3", "4.17.9", 1)))
		require.Equal(t, "release:4.18.3", planOf(nil, older, requiring(t, "p2", imageVersion)).Precaching.PlatformImage)
		require.Equal(t, "release:4.17.9", planOf(nil, older).Precaching.PlatformImage, "without one, the release that all clusters comply with")
	})
	t.Run("a release that all clusters run stops no rollout", func(t *testing.T) {
		for _, version := range []string{"{channel: a}", "{upstream: u, channel: c, desiredUpdate: {version: '{{ .v }}'}}"} {
			running := compliantWith(requiring(t, "p1", "{apiVersion: config.openshift.io/v1, kind: ClusterVersion, spec: "+version+"}", catalogSource))
			plan := planOf(nil, running, requiring(t, "p2", ptp))
			require.Empty(t, plan.Problems())
			require.Empty(t, plan.Precaching.PlatformImage)
		}
	})
	t.Run("an unchanged catalog is only for packages", func(t *testing.T) {
		plan := planOf(nil, compliantWith(requiring(t, "p1", catalogSource)), requiring(t, "p2", imageVersion))
		require.Empty(t, plan.Problems())
		require.Empty(t, plan.Precaching.OperatorsIndexes)
		changed := planOf(nil, requiring(t, "p1", catalogSource), requiring(t, "p2", imageVersion))
		require.Contains(t, changed.Problems()[0], "Precaching spec is incomplete: inconsistent precaching configuration: olm index provided, but no packages")
	})
	t.Run("raw text", func(t *testing.T) {
		raw := templating(t, "p1", "object-templates-raw: '[{complianceType: musthave, objectDefinition: "+strings.NewReplacer("'", "\"").Replace(catalogSource)+"}, {objectDefinition: "+ptp+"}]'")
		require.Equal(t, []string{"redhat:4.18"}, planOf(nil, raw).Precaching.OperatorsIndexes)
		require.Equal(t, []string{"ptp-operator:stable"}, planOf(nil, raw).Precaching.OperatorsPackagesAndChannels)
	})
	t.Run("what must not be there does not count", func(t *testing.T) {
		removed := templating(t, "p1", "object-templates: [{complianceType: MustNotHave, objectDefinition: "+ptp+"}, {complianceType: musthave, objectDefinition: "+catalogSource+"}]")
		require.Equal(t, []string{"sriov:stable"}, planOf(nil, removed, requiring(t, "p2", sriov)).Precaching.OperatorsPackagesAndChannels)
	})
	t.Run("a Subscription in parts", func(t *testing.T) {
		parts := requiring(t, "p1", catalogSource, ptp, strings.Replace(ptp, ", channel: stable", "", 1), "{apiVersion: operators.coreos.com/v1alpha1, kind: Subscription, metadata: {name: ptp}, status: {state: AtLatestKnown}}")
		require.Equal(t, []string{"ptp-operator:stable"}, planOf(nil, parts).Precaching.OperatorsPackagesAndChannels)
	})
	t.Run("a catalog without an image", func(t *testing.T) {
		plan := planOf(nil, requiring(t, "p1", imageVersion, ptp, strings.Replace(catalogSource, "image: 'redhat:4.18'", "address: 'catalog:50051'", 1)))
		require.Nil(t, plan.Precaching.OperatorsPackagesAndChannels)
		require.Contains(t, meta.FindStatusCondition(plan.Conditions, ranv1.ConditionPrecacheSpecValid).Message,
			"Precaching spec is valid and consistent; the operators of policy default/p1 are not pulled, because no policy of the rollout has a CatalogSource with an image")
	})
}

func TestWhatCannotBeDerivedIsNamed(t *testing.T) {
	const platform, spec = ranv1.ConditionValidated, ranv1.ConditionPrecacheSpecValid
	const unsupported = "templatized ClusterVersion fields not supported with precaching: set spec.overrides.platformImage of a PreCachingConfig: "
	tests := []struct {
		name      string
		policy    rollout.Policy
		condition string
		problem   string
		override  ranv1.PlatformPreCachingSpec
	}{
		{
			"a template in the version", requiring(t, "p1", strings.Replace(graphVersion, "4.18.3", "'{{hub .ManagedClusterName hub}}'", 1)),
			platform, unsupported + "the version in policy default/p1 is a template",
			ranv1.PlatformPreCachingSpec{PlatformImage: "mine:1"},
		},
		{
			"a template in the image", requiring(t, "p1", strings.Replace(imageVersion, "release:4.18.3", "{{ .image }}", 1)),
			platform, unsupported + "the image in policy default/p1 is a template",
			ranv1.PlatformPreCachingSpec{PlatformImage: "mine:1"},
		},
		{
			"a release in raw text with templates", templating(t, "p1", "object-templates-raw: '{{ range }} kind: ClusterVersion spec: {desiredUpdate: {version: 1}} {{ end }}'"),
			platform, unsupported + "policy default/p1 has a ClusterVersion in object-templates-raw with templates",
			ranv1.PlatformPreCachingSpec{PlatformImage: "mine:1"},
		},
		{
			"a template in a catalog", requiring(t, "p1", ptp, strings.Replace(catalogSource, "redhat:4.18", "{{hub index hub}}", 1)),
			spec, "policy default/p1: CatalogSource m/redhat: spec.image is a template, so its value cannot be derived: set spec.overrides.operatorsIndexes of a PreCachingConfig",
			ranv1.PlatformPreCachingSpec{OperatorsIndexes: []string{"mine:1"}},
		},
		{
			"a template in a channel", requiring(t, "p1", catalogSource, strings.Replace(ptp, "channel: stable", "channel: '{{ .channel }}'", 1)),
			spec, "policy default/p1: Subscription p/ptp: spec.channel is a template, so its value cannot be derived: set spec.overrides.operatorsPackagesAndChannels of a PreCachingConfig",
			ranv1.PlatformPreCachingSpec{OperatorsPackagesAndChannels: []string{"ptp-operator:stable"}},
		},
		{
			"no channel", requiring(t, "p1", catalogSource, strings.Replace(ptp, ", channel: stable", "", 1)),
			spec, "policy default/p1: Subscription p/ptp: spec.channel is missing, and the default channel of the catalog is not known",
			ranv1.PlatformPreCachingSpec{OperatorsPackagesAndChannels: []string{"ptp-operator:stable"}},
		},
		{
			"operators in raw text with templates", templating(t, "p1", "object-templates-raw: '{{ if }} \"kind\": \"Subscription\", channel: a --- kind: CatalogSource, image: b {{ end }}'"),
			spec, "policy default/p1: object-templates-raw has templates, so what it sets cannot be derived: set spec.overrides.operatorsIndexes of a PreCachingConfig",
			ranv1.PlatformPreCachingSpec{OperatorsIndexes: []string{"mine:1"}, OperatorsPackagesAndChannels: []string{"ptp-operator:stable"}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan := planOf(nil, test.policy)
			require.False(t, plan.Valid())
			require.Contains(t, meta.FindStatusCondition(plan.Conditions, test.condition).Message, test.problem)
			overridden := planOf(func(i *rollout.Inventory) { i.PreCachingConfig = &ranv1.PreCachingConfigSpec{Overrides: test.override} }, test.policy)
			require.Empty(t, overridden.Problems())
		})
	}
	t.Run("raw text that only reads a status", func(t *testing.T) {
		require.Empty(t, planOf(nil, requiring(t, "p1", imageVersion), templating(t, "p2", "object-templates-raw: '{{ if }} kind: ClusterVersion status: {} {{ end }}'")).Problems())
	})
}

func TestAVersionIsLookedUpInItsUpdateGraph(t *testing.T) {
	wanted := precache.Release{Upstream: "https://updates.example.com/graph", Channel: "stable-4.18", Version: "4.18.3"}
	policy := requiring(t, "p1", graphVersion)
	knowing := func(known precache.LookedUp) rollout.Plan {
		return planOf(func(i *rollout.Inventory) { i.Release = &known }, policy)
	}
	plan := planOf(nil, policy)
	require.True(t, plan.Valid())
	require.Equal(t, &precache.LookedUp{Release: wanted}, plan.Release, "it is still to be looked up")
	require.Equal(t, &ranv1.PrecachingSpec{SpaceRequired: "35"}, plan.Precaching)

	plan = knowing(precache.LookedUp{Release: wanted, Image: "release:3"})
	require.Equal(t, "release:3", plan.Precaching.PlatformImage)
	require.Equal(t, "policy default/p1, version 4.18.3 in the update graph", plan.PrecachingSources[precache.PlatformImage])
	require.Equal(t, "release:3", plan.Release.Image)

	plan = knowing(precache.LookedUp{Release: wanted, Problem: "unable to request update graph on url u: refused"})
	condition := meta.FindStatusCondition(plan.Conditions, ranv1.ConditionValidated)
	require.Equal(t, ranv1.ReasonInvalidPlatformImage, condition.Reason)
	require.Equal(t, "unable to request update graph on url u: refused (requested by policy default/p1): Drydock looks it up again; or set spec.overrides.platformImage of a PreCachingConfig", condition.Message)

	other := wanted
	other.Version = "4.18.4"
	require.Equal(t, &precache.LookedUp{Release: wanted}, knowing(precache.LookedUp{Release: other, Image: "release:4"}).Release, "the policy has another version now")

	for name, change := range map[string]func(*rollout.Inventory){
		"a PreCachingConfig": func(i *rollout.Inventory) {
			i.PreCachingConfig = &ranv1.PreCachingConfigSpec{Overrides: ranv1.PlatformPreCachingSpec{PlatformImage: "mine:1"}}
		},
		"a ConfigMap": func(i *rollout.Inventory) {
			i.PreCachingOverrides = map[string]string{"platform.image": "mine:1"}
		},
	} {
		plan := planOf(change, policy)
		require.Nil(t, plan.Release, "%s needs no update graph", name)
		require.Equal(t, "mine:1", plan.Precaching.PlatformImage)
	}
	unmet := rollout.NewPlan(rolloutOf(1, []string{"c1"}, managing("p1"), precached, func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.PreCachingConfigRef = &ranv1.ObjectRef{Name: "later"}
	}), rollout.Inventory{Clusters: fleet(), Policies: []rollout.Policy{policy}}, noon)
	require.Nil(t, unmet.Release, "a PreCachingConfig that does not exist yet may replace it")
	require.False(t, unmet.Valid())
}

func TestARolloutWithoutWorkPrecachesNothing(t *testing.T) {
	plan := rollout.NewPlan(rolloutOf(1, []string{"c1"}, managing("p1"), precached),
		rollout.Inventory{Clusters: fleet(), Policies: []rollout.Policy{compliantWith(requiring(t, "p1", graphVersion))}}, noon)
	require.True(t, plan.Valid())
	require.Nil(t, plan.Precaching)
	require.Nil(t, plan.Release)
	require.Nil(t, meta.FindStatusCondition(plan.Conditions, ranv1.ConditionPrecacheSpecValid))
}
