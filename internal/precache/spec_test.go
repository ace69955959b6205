package precache_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/precache"
)

// config is the example in the documentation of the operator.
const config = `
overrides:
  platformImage: quay.example.com/openshift-release-dev/ocp-release@sha256:3d5800990dee7cd4727d3fe238a97e2d2976d3808fc925ada29c559a47e2e1ef
  operatorsIndexes:
  - registry.example.com:5000/custom-redhat-operators:1.0.0
  operatorsPackagesAndChannels:
  - local-storage-operator:stable
  - "ptp-operator: stable"
spaceRequired: 30 GiB
excludePrecachePatterns:
- aws
- vsphere
additionalImages:
- quay.example.com/exampleconfig/application1@sha256:3d5800990dee7cd4727d3fe238a97e2d2976d3808fc925ada29c559a47e2e1ef
- app:v1_2
`

func configOf(t require.TestingT, change func(*ranv1.PreCachingConfigSpec)) *ranv1.PreCachingConfigSpec {
	var spec ranv1.PreCachingConfigSpec
	require.NoError(t, yaml.UnmarshalStrict([]byte(config), &spec))
	if change != nil {
		change(&spec)
	}
	return &spec
}

// specOf returns the content that only a PreCachingConfig names.
func specOf(t *testing.T, change func(*ranv1.PreCachingConfigSpec)) precache.Content {
	t.Helper()
	return precache.SpecOf(precache.Overrides{Config: configOf(t, change), ConfigName: "ztp/june"}, precache.Derived{})
}

// named is the content that two policies name.
func named() precache.Derived {
	from := func(policy, path string, values ...string) (settings []precache.Setting) {
		for _, value := range values {
			settings = append(settings, precache.Setting{Value: value, Source: "policy ztp/" + policy, Path: path})
		}
		return settings
	}
	return precache.Derived{
		Platform: &from("du", "ClusterVersion: spec.desiredUpdate.image", "release:4.18")[0],
		Indexes:  append(from("common", "CatalogSource m/redhat: spec.image", "redhat:4.18"), from("du", "CatalogSource m/redhat: spec.image", "redhat:4.18")...),
		Packages: from("common", "Subscription p/ptp: spec", "ptp:stable", "sriov:stable"),
	}
}

func TestPrecachedContentIsReadFromTheConfiguration(t *testing.T) {
	content := specOf(t, nil)
	require.Empty(t, content.Problems)
	require.Equal(t, "30", content.Spec.SpaceRequired)
	data := precache.Work{Kind: precache.Precaching, Spec: &content.Spec}.Config()
	require.Equal(t, "local-storage-operator:stable\nptp-operator:stable", data["operators.packagesAndChannels"])
	require.Equal(t, "aws\nvsphere", data["excludePrecachePatterns"])
	require.Equal(t, "registry.example.com:5000/custom-redhat-operators:1.0.0", data["operators.indexes"])
	require.Contains(t, data["platform.image"], "ocp-release@sha256:")
	require.Nil(t, precache.Work{Kind: precache.Backup}.Config())
}

func TestInvalidConfigurationsAreRefusedByTheirFields(t *testing.T) {
	refused := precache.CheckConfig(configOf(t, func(s *ranv1.PreCachingConfigSpec) {
		s.Overrides.PlatformImage, s.Overrides.PreCacheImage = "no image", "Upper/Case"
		s.Overrides.OperatorsIndexes[0] = ""
		s.Overrides.OperatorsPackagesAndChannels = []string{"ok:1", "nochannel", ":c", "p:", "a:b:c", "a b:c"}
		s.SpaceRequired, s.ExcludePrecachePatterns, s.AdditionalImages = "much", []string{"", "a\nb"}, []string{"x\ny"}
	}))
	var paths []string
	for _, problem := range refused {
		paths = append(paths, problem.Field)
	}
	require.Equal(t, []string{
		"spec.overrides.platformImage", "spec.overrides.operatorsIndexes[0]", "spec.overrides.operatorsPackagesAndChannels[1]", "spec.overrides.operatorsPackagesAndChannels[2]",
		"spec.overrides.operatorsPackagesAndChannels[3]", "spec.overrides.operatorsPackagesAndChannels[4]", "spec.overrides.operatorsPackagesAndChannels[5]",
		"spec.excludePrecachePatterns[0]", "spec.excludePrecachePatterns[1]", "spec.spaceRequired", "spec.additionalImages[0]", "spec.overrides.preCacheImage",
	}, paths)
	require.Empty(t, precache.CheckConfig(&ranv1.PreCachingConfigSpec{}), "policies may name the rest")
}

func TestTheContentOfPoliciesIsReplacedFieldByField(t *testing.T) {
	const configMap = "ConfigMap ztp/cluster-group-upgrade-overrides"
	tests := []struct {
		name    string
		change  func(*precache.Overrides, *precache.Derived)
		want    func(*ranv1.PrecachingSpec)
		sources map[precache.Field]string
		notes   string
		problem []string
	}{
		{name: "policies alone", change: func(*precache.Overrides, *precache.Derived) {}},
		{
			name: "a PreCachingConfig",
			change: func(o *precache.Overrides, _ *precache.Derived) {
				o.Config = &ranv1.PreCachingConfigSpec{SpaceRequired: "40 GiB", Overrides: ranv1.PlatformPreCachingSpec{PlatformImage: "mine:1", PreCacheImage: "pull:2"}}
			},
			want:    func(s *ranv1.PrecachingSpec) { s.PlatformImage, s.SpaceRequired = "mine:1", "40" },
			sources: map[precache.Field]string{"platformImage": "PreCachingConfig ztp/june", "spaceRequired": "PreCachingConfig ztp/june", "preCacheImage": "PreCachingConfig ztp/june"},
		},
		{
			name: "every key of the ConfigMap",
			change: func(o *precache.Overrides, _ *precache.Derived) {
				o.ConfigMap = map[string]string{
					"platform.image": " mine:1\n", "operators.indexes": "\nmine:2\n\n  mine:3 \n", "operators.packagesAndChannels": "ptp: 4.9\r\nsriov :stable\nptp:4.9",
					"excludePrecachePatterns": "aws\nazure\n", "precache.spaceRequired": "45 GB", "precache.image": "pull:3", "unknown": "x",
				}
			},
			want: func(s *ranv1.PrecachingSpec) {
				*s = ranv1.PrecachingSpec{
					PlatformImage: "mine:1", OperatorsIndexes: []string{"mine:2", "mine:3"}, OperatorsPackagesAndChannels: []string{"ptp:4.9", "sriov:stable"},
					ExcludePrecachePatterns: []string{"aws", "azure"}, SpaceRequired: "42",
				}
			},
			sources: map[precache.Field]string{
				"platformImage": configMap, "operatorsIndexes": configMap, "operatorsPackagesAndChannels": configMap, "excludePrecachePatterns": configMap,
				"spaceRequired": configMap, "preCacheImage": configMap,
			},
		},
		{
			name: "the PreCachingConfig wins over the ConfigMap",
			change: func(o *precache.Overrides, _ *precache.Derived) {
				o.Config = &ranv1.PreCachingConfigSpec{ExcludePrecachePatterns: []string{"gcp"}}
				o.ConfigMap = map[string]string{"excludePrecachePatterns": "aws", "precache.spaceRequired": "36 GiB"}
			},
			want:    func(s *ranv1.PrecachingSpec) { s.ExcludePrecachePatterns, s.SpaceRequired = []string{"gcp"}, "36" },
			sources: map[precache.Field]string{"excludePrecachePatterns": "PreCachingConfig ztp/june", "spaceRequired": configMap},
		},
		{
			name: "an empty key replaces nothing",
			change: func(o *precache.Overrides, _ *precache.Derived) {
				o.ConfigMap = map[string]string{"operators.indexes": " \n\n"}
			},
		},
		{
			name: "packages of policies without a catalog are not pulled",
			change: func(_ *precache.Overrides, d *precache.Derived) {
				d.Indexes = nil
				d.Packages[0].Unknown = "is a template"
			},
			want:    func(s *ranv1.PrecachingSpec) { s.OperatorsIndexes, s.OperatorsPackagesAndChannels = nil, nil },
			sources: map[precache.Field]string{"operatorsIndexes": "", "operatorsPackagesAndChannels": ""},
			notes:   "the operators of policy ztp/common are not pulled, because no policy of the rollout has a CatalogSource with an image",
		},
		{
			name:    "a catalog without packages",
			change:  func(_ *precache.Overrides, d *precache.Derived) { d.Packages = nil },
			problem: []string{"inconsistent precaching configuration: olm index provided, but no packages: no policy of the rollout has a Subscription for the catalog of policy ztp/common, policy ztp/du; "},
		},
		{
			name: "an unchanged catalog without packages",
			change: func(_ *precache.Overrides, d *precache.Derived) {
				d.Packages, d.Indexes[0].Unchanged, d.Indexes[1].Unchanged = nil, true, true
			},
			want:    func(s *ranv1.PrecachingSpec) { s.OperatorsIndexes, s.OperatorsPackagesAndChannels = nil, nil },
			sources: map[precache.Field]string{"operatorsIndexes": "", "operatorsPackagesAndChannels": ""},
		},
		{
			name: "packages of a PreCachingConfig without a catalog",
			change: func(o *precache.Overrides, d *precache.Derived) {
				o.Config, d.Indexes = &ranv1.PreCachingConfigSpec{Overrides: ranv1.PlatformPreCachingSpec{OperatorsPackagesAndChannels: []string{"ptp:stable"}}}, nil
			},
			problem: []string{"PreCachingConfig ztp/june: spec.overrides.operatorsIndexes: Required value: which catalogs are the operatorsPackagesAndChannels in?"},
		},
		{
			name:    "nothing at all",
			change:  func(_ *precache.Overrides, d *precache.Derived) { *d = precache.Derived{} },
			problem: []string{"inconsistent precaching configuration: no software spec provided: "},
		},
		{
			name:   "a release that is still to be looked up is enough",
			change: func(_ *precache.Overrides, d *precache.Derived) { *d = precache.Derived{Pending: true} },
			want:   func(s *ranv1.PrecachingSpec) { *s = ranv1.PrecachingSpec{SpaceRequired: "35"} },
			sources: map[precache.Field]string{
				"platformImage": "", "operatorsIndexes": "", "operatorsPackagesAndChannels": "",
			},
		},
		{
			name: "additional images alone are enough",
			change: func(o *precache.Overrides, d *precache.Derived) {
				o.Config, *d = &ranv1.PreCachingConfigSpec{AdditionalImages: []string{"app:1"}}, precache.Derived{}
			},
			want: func(s *ranv1.PrecachingSpec) {
				*s = ranv1.PrecachingSpec{AdditionalImages: []string{"app:1"}, SpaceRequired: "35"}
			},
			sources: map[precache.Field]string{"platformImage": "", "operatorsIndexes": "", "operatorsPackagesAndChannels": "", "additionalImages": "PreCachingConfig ztp/june"},
		},
		{
			name: "templates and invalid values, each with its object and what replaces it",
			change: func(o *precache.Overrides, d *precache.Derived) {
				d.Indexes[1].Unknown, d.Packages[0].Unknown, d.Packages[1].Value = "is a template", "is a template", "sriov:"
				o.ConfigMap = map[string]string{"platform.image": "a\nb", "precache.spaceRequired": "much"}
			},
			problem: []string{
				"ConfigMap ztp/cluster-group-upgrade-overrides: data[platform.image]: Invalid value: ",
				"policy ztp/du: CatalogSource m/redhat: spec.image is a template: set spec.overrides.operatorsIndexes of a PreCachingConfig",
				"policy ztp/common: Subscription p/ptp: spec is a template: set spec.overrides.operatorsPackagesAndChannels of a PreCachingConfig",
				`policy ztp/common: Subscription p/ptp: spec: Invalid value: "sriov:": must be package:channel`,
				`ConfigMap ztp/cluster-group-upgrade-overrides: data[precache.spaceRequired]: Invalid value: "much"`,
			},
		},
		{
			name: "an override replaces templates",
			change: func(o *precache.Overrides, d *precache.Derived) {
				d.Indexes[0].Unknown = "is a template"
				o.Config = &ranv1.PreCachingConfigSpec{Overrides: ranv1.PlatformPreCachingSpec{OperatorsIndexes: []string{"mine:1"}}}
			},
			want:    func(s *ranv1.PrecachingSpec) { s.OperatorsIndexes = []string{"mine:1"} },
			sources: map[precache.Field]string{"operatorsIndexes": "PreCachingConfig ztp/june"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			overrides, derived := precache.Overrides{ConfigName: "ztp/june", ConfigMapName: "ztp/cluster-group-upgrade-overrides"}, named()
			test.change(&overrides, &derived)
			content := precache.SpecOf(overrides, derived)
			require.Len(t, content.Problems, len(test.problem), "%q", content.Problems)
			for i, problem := range test.problem {
				require.Contains(t, content.Problems[i], problem)
			}
			if len(test.problem) > 0 {
				return
			}
			want := ranv1.PrecachingSpec{
				PlatformImage: "release:4.18", OperatorsIndexes: []string{"redhat:4.18"}, OperatorsPackagesAndChannels: []string{"ptp:stable", "sriov:stable"}, SpaceRequired: "35",
			}
			if test.want != nil {
				test.want(&want)
			}
			require.Equal(t, want, content.Spec)
			sources := map[precache.Field]string{
				"platformImage": "policy ztp/du", "operatorsIndexes": "policy ztp/common, policy ztp/du", "operatorsPackagesAndChannels": "policy ztp/common", "spaceRequired": "default",
			}
			for name, source := range test.sources {
				if sources[name] = source; source == "" {
					delete(sources, name)
				}
			}
			require.Equal(t, sources, content.Sources)
			require.Contains(t, strings.Join(content.Notes, "; "), test.notes)
			require.Equal(t, test.notes == "", len(content.Notes) == 0)
		})
	}
}

// The values of a field are those of the first source that has any, in their order, and each of them once.
func TestTheFirstSourceWithValuesSetsAField(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		images := rapid.SliceOfN(rapid.SampledFrom([]string{"a:1", "b:1", "c:1", "d:1"}), 0, 5)
		configured, lines, policies := images.Draw(r, "config"), images.Draw(r, "ConfigMap"), images.Draw(r, "policies")
		derived := named()
		derived.Indexes = nil
		for _, image := range policies {
			derived.Indexes = append(derived.Indexes, precache.Setting{Value: image, Source: "policy ztp/p", Path: "spec.image"})
		}
		overrides := precache.Overrides{
			Config:    &ranv1.PreCachingConfigSpec{Overrides: ranv1.PlatformPreCachingSpec{OperatorsIndexes: configured}},
			ConfigMap: map[string]string{"operators.indexes": strings.Join(lines, "\n")},
		}
		content := precache.SpecOf(overrides, derived)
		require.Empty(r, content.Problems)
		var want []string
		for _, source := range [][]string{configured, lines, policies} {
			if len(source) > 0 && want == nil {
				want = source
			}
		}
		var different []string
		for _, image := range want {
			if !slices.Contains(different, image) {
				different = append(different, image)
			}
		}
		require.Equal(r, different, content.Spec.OperatorsIndexes)
	})
}

func TestSpaceIsRoundedUpToWholeGiB(t *testing.T) {
	for size, want := range map[string]string{
		"": "35", "35 GiB": "35", "35GiB": "35", "40 GB": "38", "45 GB": "42", "1.5 TiB": "1536", "1": "1", "36g": "34", "512 MiB": "1", " 10 Gi ": "10", "1 PiB": "1048576", "1073741825": "2",
	} {
		content := specOf(t, func(s *ranv1.PreCachingConfigSpec) { s.SpaceRequired = size })
		require.Empty(t, content.Problems, size)
		require.Equal(t, want, content.Spec.SpaceRequired, size)
	}
	for _, bad := range []string{"0", "0 GiB", "-1 GiB", "35 XiB", "GiB", "3,5 GiB", "35  GiB GiB"} {
		require.Len(t, specOf(t, func(s *ranv1.PreCachingConfigSpec) { s.SpaceRequired = bad }).Problems, 1, bad)
	}
}

func TestSpaceIsNeverLessThanRequested(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		bytes := rapid.Int64Range(1, 1<<50).Draw(r, "bytes")
		content := precache.SpecOf(precache.Overrides{Config: &ranv1.PreCachingConfigSpec{SpaceRequired: fmt.Sprint(bytes)}}, precache.Derived{})
		var gib int64
		_, err := fmt.Sscan(content.Spec.SpaceRequired, &gib)
		require.NoError(r, err)
		require.GreaterOrEqual(r, gib<<30, bytes)
		require.Less(r, (gib-1)<<30, bytes)
	})
}

// FuzzOverrides reads a ConfigMap as its owner may write it: the content is complete, or a problem names the ConfigMap.
func FuzzOverrides(f *testing.F) {
	f.Add("operators.packagesAndChannels", "local-storage-operator: stable\nptp-operator: stable\n")
	f.Add("precache.spaceRequired", "1e9 GiB")
	f.Add("platform.image", "\x00\n:@")
	f.Fuzz(func(t *testing.T, key, text string) {
		content := precache.SpecOf(precache.Overrides{ConfigMap: map[string]string{key: text}, ConfigMapName: "ztp/o"}, named())
		for _, problem := range content.Problems {
			require.Contains(t, problem, "ConfigMap ztp/o")
		}
		for _, entry := range content.Spec.OperatorsPackagesAndChannels {
			require.Equal(t, 1, strings.Count(entry, ":"))
			require.NotContains(t, entry, "\n")
		}
	})
}
