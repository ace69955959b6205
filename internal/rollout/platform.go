package rollout

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"drydock.dev/drydock/internal/precache"
)

// ReleaseField is a field of a ClusterVersion that determines the release of the platform.
type ReleaseField string

// The fields. An image is a release; without an image, the other fields determine it.
const (
	ReleaseUpstream ReleaseField = "upstream"
	ReleaseChannel  ReleaseField = "channel"
	ReleaseVersion  ReleaseField = "version"
	ReleaseImage    ReleaseField = "image"
)

// Release is the release in one ClusterVersion of a policy template.
type Release struct {
	// Fields are the values of the fields that are set.
	Fields map[ReleaseField]string
	// Invalid are the errors of invalid fields.
	Invalid []string
}

// setsRelease reports whether an object sets the release. A ClusterVersion without a spec only reads the status.
func setsRelease(object map[string]any) bool {
	version, _, _ := unstructured.NestedString(object, "apiVersion")
	return object["kind"] == clusterVersionKind && strings.HasPrefix(version, "config.openshift.io/") && object["spec"] != nil
}

func readRelease(clusterVersion map[string]any) Release {
	release := Release{Fields: map[ReleaseField]string{}}
	for _, path := range [][]string{{"upstream"}, {"channel"}, {"desiredUpdate", "version"}, {"desiredUpdate", "image"}} {
		path = append([]string{"spec"}, path...)
		name := ReleaseField(path[len(path)-1])
		at := field.NewPath(path[0], path[1:]...)
		value, _, err := unstructured.NestedString(clusterVersion, path...)
		switch {
		case err != nil:
			release.Invalid = append(release.Invalid, at.String()+" must be a string")
		case value == "":
		case name == ReleaseImage && !templated(value) && precache.CheckImage(at, value) != nil:
			release.Invalid = append(release.Invalid, precache.CheckImage(at, value).Error())
		default:
			release.Fields[name] = value
		}
	}
	return release
}

// platformProblems returns why the policies do not determine one release of the platform. The rules are those of TALM.
func platformProblems(forUpgrade []Policy) []string {
	var problems, requesting, missing []string
	for _, policy := range forUpgrade {
		if len(policy.Releases) > 0 {
			requesting = append(requesting, policy.String())
		}
		for _, release := range policy.Releases {
			for _, invalid := range release.Invalid {
				problems = append(problems, fmt.Sprintf("invalid ClusterVersion in policy %s: %s", policy, invalid))
			}
		}
	}
	understood := len(problems) == 0
	for _, name := range []ReleaseField{ReleaseUpstream, ReleaseChannel, ReleaseVersion, ReleaseImage} {
		requested, differ := requestedValues(forUpgrade, name)
		if differ {
			problems = append(problems, fmt.Sprintf("platform image defined more than once with conflicting %s values: %s", name, strings.Join(requested, ", ")))
		}
		if len(requested) == 0 {
			missing = append(missing, string(name))
		}
	}
	if understood && len(requesting) > 0 && len(missing) > 1 && slices.Contains(missing, string(ReleaseImage)) {
		problems = append(problems, fmt.Sprintf("policy with ClusterVersion must have upstream, channel, and version when image is not provided: %s without %s",
			strings.Join(requesting, ", "), strings.Join(missing[:len(missing)-1], ", ")))
	}
	return problems
}

// requestedValues lists the values of a field in all policies. differ reports whether they conflict; templates are not compared.
func requestedValues(forUpgrade []Policy, name ReleaseField) (requested []string, differ bool) {
	var before string
	for _, policy := range forUpgrade {
		for _, release := range policy.Releases {
			value := release.Fields[name]
			if value == "" {
				continue
			}
			requested = append(requested, fmt.Sprintf("%s in policy %s", value, policy))
			if templated(value) {
				continue
			}
			differ = differ || before != "" && value != before
			before = value
		}
	}
	return requested, differ
}
