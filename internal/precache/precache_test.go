package precache_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
  - ptp-operator:stable
spaceRequired: 30 GiB
excludePrecachePatterns:
- aws
- vsphere
additionalImages:
- quay.example.com/exampleconfig/application1@sha256:3d5800990dee7cd4727d3fe238a97e2d2976d3808fc925ada29c559a47e2e1ef
- app:v1_2
`

func specOf(t *testing.T, change func(*ranv1.PreCachingConfigSpec)) (ranv1.PrecachingSpec, []string) {
	t.Helper()
	var spec ranv1.PreCachingConfigSpec
	require.NoError(t, yaml.UnmarshalStrict([]byte(config), &spec))
	if change != nil {
		change(&spec)
	}
	result, invalid := precache.SpecOf(&spec)
	var problems []string
	for _, problem := range invalid {
		problems = append(problems, problem.Error())
	}
	return result, problems
}

func TestPrecachedContentIsReadFromTheConfiguration(t *testing.T) {
	spec, problems := specOf(t, nil)
	require.Empty(t, problems)
	require.Equal(t, "30", spec.SpaceRequired)
	data := precache.Work{Kind: precache.Precaching, Spec: &spec}.Config()
	require.Equal(t, "local-storage-operator:stable\nptp-operator:stable", data["operators.packagesAndChannels"])
	require.Equal(t, "aws\nvsphere", data["excludePrecachePatterns"])
	require.Equal(t, "registry.example.com:5000/custom-redhat-operators:1.0.0", data["operators.indexes"])
	require.Contains(t, data["platform.image"], "ocp-release@sha256:")
	require.Nil(t, precache.Work{Kind: precache.Backup}.Config())
}

func TestEveryInvalidFieldIsReported(t *testing.T) {
	tests := []struct {
		name   string
		change func(*ranv1.PreCachingConfigSpec)
		want   []string
	}{
		{"additional images alone are enough", func(s *ranv1.PreCachingConfigSpec) { s.Overrides = ranv1.PlatformPreCachingSpec{} }, nil},
		{"the image of the Job may be missing", func(s *ranv1.PreCachingConfigSpec) { s.Overrides.PreCacheImage = "" }, nil},
		{"no content", func(s *ranv1.PreCachingConfigSpec) { *s = ranv1.PreCachingConfigSpec{} }, []string{"spec.overrides: Required value: nothing to pull"}},
		{"catalogs without packages", func(s *ranv1.PreCachingConfigSpec) { s.Overrides.OperatorsPackagesAndChannels = nil }, []string{"spec.overrides.operatorsPackagesAndChannels: Required"}},
		{"packages without catalogs", func(s *ranv1.PreCachingConfigSpec) { s.Overrides.OperatorsIndexes = nil }, []string{"spec.overrides.operatorsIndexes: Required"}},
		{"several invalid fields", func(s *ranv1.PreCachingConfigSpec) {
			s.Overrides.PlatformImage, s.Overrides.PreCacheImage = "no image", "Upper/Case"
			s.Overrides.OperatorsIndexes[0] = ""
			s.Overrides.OperatorsPackagesAndChannels = []string{"ok:1", "nochannel", ":c", "p:", "a:b:c", "a b:c"}
			s.SpaceRequired, s.ExcludePrecachePatterns, s.AdditionalImages = "much", []string{"", "a\nb"}, []string{"x\ny"}
		}, []string{
			"spec.overrides.operatorsIndexes[0]", "operatorsPackagesAndChannels[1]", "operatorsPackagesAndChannels[2]", "operatorsPackagesAndChannels[3]",
			"operatorsPackagesAndChannels[4]", "operatorsPackagesAndChannels[5]", "spec.overrides.platformImage", "spec.overrides.preCacheImage",
			"spec.spaceRequired", "spec.excludePrecachePatterns[0]", "spec.excludePrecachePatterns[1]", "spec.additionalImages[0]",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, problems := specOf(t, test.change)
			require.Len(t, problems, len(test.want), "%q", problems)
			for i, want := range test.want {
				require.Contains(t, problems[i], want)
			}
		})
	}
}

func TestSpaceIsRoundedUpToWholeGiB(t *testing.T) {
	for size, want := range map[string]string{
		"": "35", "35 GiB": "35", "35GiB": "35", "40 GB": "38", "45 GB": "42", "1.5 TiB": "1536", "1": "1", "36g": "34", "512 MiB": "1", " 10 Gi ": "10", "1 PiB": "1048576", "1073741825": "2",
	} {
		spec, problems := specOf(t, func(s *ranv1.PreCachingConfigSpec) { s.SpaceRequired = size })
		require.Empty(t, problems, size)
		require.Equal(t, want, spec.SpaceRequired, size)
	}
	for _, bad := range []string{"0", "0 GiB", "-1 GiB", "35 XiB", "GiB", "3,5 GiB", "35  GiB GiB"} {
		_, problems := specOf(t, func(s *ranv1.PreCachingConfigSpec) { s.SpaceRequired = bad })
		require.Len(t, problems, 1, bad)
	}
}

func TestSpaceIsNeverLessThanRequested(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		bytes := rapid.Int64Range(1, 1<<50).Draw(r, "bytes")
		spec, _ := precache.SpecOf(&ranv1.PreCachingConfigSpec{SpaceRequired: fmt.Sprint(bytes)})
		var gib int64
		_, err := fmt.Sscan(spec.SpaceRequired, &gib)
		require.NoError(r, err)
		require.GreaterOrEqual(r, gib<<30, bytes)
		require.Less(r, (gib-1)<<30, bytes)
	})
}

func TestJobsHaveADeadlineAndNoRetries(t *testing.T) {
	for _, kind := range []precache.Kind{precache.Precaching, precache.Backup} {
		job := precache.Work{Kind: kind, Image: "work:1", Timeout: 2 * time.Hour}.Job("name")
		require.EqualValues(t, 7200, *job.Spec.ActiveDeadlineSeconds)
		require.EqualValues(t, 0, *job.Spec.BackoffLimit)
		require.NotNil(t, job.Spec.TTLSecondsAfterFinished)
		require.True(t, strings.HasPrefix(job.Namespace, "openshift-talo-"))
		pod := job.Spec.Template.Spec
		require.Equal(t, "work:1", pod.Containers[0].Image)
		mounts := map[string]bool{}
		for _, volume := range pod.Volumes {
			require.False(t, mounts[volume.Name], volume.Name)
			mounts[volume.Name] = true
		}
		for _, mount := range pod.Containers[0].VolumeMounts {
			require.True(t, mounts[mount.Name], mount.Name)
		}
		require.Equal(t, kind == precache.Precaching, mounts["config-volume"])
	}
}

func TestTheConditionSummarizesAllClusters(t *testing.T) {
	type states = map[string]ranv1.PreparationState
	tests := []struct {
		name                    string
		kind                    precache.Kind
		states                  states
		status, reason, message string
	}{
		{"no clusters", precache.Precaching, nil, "True", "PrecachingCompleted", "Precaching is completed for all clusters"},
		{"not started", precache.Precaching, states{"a": "NotStarted", "b": "NotStarted"}, "False", "InProgress", "Precaching is not completed"},
		{"in progress", precache.Precaching, states{"a": "Active", "b": "NotStarted", "c": "Succeeded"}, "False", "InProgress", "Precaching is in progress for 2 clusters"},
		{"in progress with a failure", precache.Backup, states{"a": "Starting", "b": "UnrecoverableError"}, "False", "InProgress", "Backup is in progress for 1 clusters; failed: b"},
		{"done", precache.Backup, states{"a": "Succeeded"}, "True", "BackupCompleted", "Backup is completed for all clusters"},
		{"some failed", precache.Backup, states{"a": "Succeeded", "c": "BackupTimeout", "b": "UnrecoverableError"}, "True", "PartiallyDone", "Backup failed for 2 clusters; failed: b, c"},
		{"all failed", precache.Precaching, states{"a": "PrecacheTimeout"}, "False", "Failed", "Precaching failed for all clusters; failed: a"},
		{"all backups failed", precache.Backup, states{"a": "BackupTimeout"}, "False", "Failed", "Backup failed for all the clusters; failed: a"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := test.kind.Judge(test.states)
			require.Equal(t, []string{test.status, test.reason, test.message}, []string{string(v.Status), v.Reason, v.Message})
		})
	}
}
