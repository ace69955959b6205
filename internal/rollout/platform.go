package rollout

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"

	"drydock.dev/drydock/internal/precache"
)

// ReleaseField is a field of a ClusterVersion that says which release of the platform a cluster goes to.
type ReleaseField string

// The fields: an image is a release; without one, it is looked up by the others.
const (
	ReleaseUpstream ReleaseField = "upstream"
	ReleaseChannel  ReleaseField = "channel"
	ReleaseVersion  ReleaseField = "version"
	ReleaseImage    ReleaseField = "image"
)

// Release is what one ClusterVersion in a policy's templates asks for.
type Release struct {
	// Fields has the fields that are set.
	Fields map[ReleaseField]string
	// Invalid are the fields that cannot be what they are.
	Invalid []string
}

// releasesIn reads the releases that one policy template asks for, in its objects and in its text. What must not be is not asked for. Text that is yet to
// be filled in says nothing for sure.
func releasesIn(spec map[string]any) []Release {
	objects, _, _ := unstructured.NestedSlice(spec, "object-templates")
	if raw, _, _ := unstructured.NestedString(spec, "object-templates-raw"); raw != "" && !templated(raw) {
		var written []any
		if yaml.Unmarshal([]byte(raw), &written) == nil {
			objects = append(objects, written...)
		}
	}
	var releases []Release
	for _, object := range objects {
		fields, _ := object.(map[string]any)
		wanted, _, _ := unstructured.NestedString(fields, "complianceType")
		definition, _, _ := unstructured.NestedMap(fields, "objectDefinition")
		if setsRelease(definition) && !strings.EqualFold(wanted, "mustnothave") {
			releases = append(releases, readRelease(definition))
		}
	}
	return releases
}

// setsRelease: a ClusterVersion without a spec only looks at the status.
func setsRelease(object map[string]any) bool {
	version, _, _ := unstructured.NestedString(object, "apiVersion")
	return object["kind"] == "ClusterVersion" && strings.HasPrefix(version, "config.openshift.io/") && object["spec"] != nil
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
		case name == ReleaseImage && !templated(value) && len(precache.CheckImage(at, value)) > 0:
			release.Invalid = append(release.Invalid, precache.CheckImage(at, value).ToAggregate().Error())
		default:
			release.Fields[name] = value
		}
	}
	return release
}

// templated reports whether a text is filled in later, on the hub or on the cluster.
func templated(text string) bool { return strings.Contains(text, "{{") }

// platformProblems returns why the policies together do not determine the release of the platform. The rules are those of TALM, which
// looks the image up by the other fields; Drydock does not check that the image exists.
func platformProblems(forUpgrade []Policy) []string {
	var problems, asking, missing []string
	for _, policy := range forUpgrade {
		if len(policy.Releases) > 0 {
			asking = append(asking, policy.String())
		}
		for _, release := range policy.Releases {
			for _, invalid := range release.Invalid {
				problems = append(problems, fmt.Sprintf("invalid ClusterVersion in policy %s: %s", policy, invalid))
			}
		}
	}
	understood := len(problems) == 0
	for _, name := range []ReleaseField{ReleaseUpstream, ReleaseChannel, ReleaseVersion, ReleaseImage} {
		asked, differ := requestedValues(forUpgrade, name)
		if differ {
			problems = append(problems, fmt.Sprintf("platform image defined more than once with conflicting %s values: %s", name, strings.Join(asked, ", ")))
		}
		if len(asked) == 0 {
			missing = append(missing, string(name))
		}
	}
	if understood && len(asking) > 0 && len(missing) > 1 && slices.Contains(missing, string(ReleaseImage)) {
		problems = append(problems, fmt.Sprintf("policy with ClusterVersion must have upstream, channel, and version when image is not provided: %s without %s",
			strings.Join(asking, ", "), strings.Join(missing[:len(missing)-1], ", ")))
	}
	return problems
}

// requestedValues lists what policies ask for in a field, and reports whether they differ, as far as that is known before templates are filled in.
func requestedValues(forUpgrade []Policy, name ReleaseField) (asked []string, differ bool) {
	var before string
	for _, policy := range forUpgrade {
		for _, release := range policy.Releases {
			value := release.Fields[name]
			if value == "" {
				continue
			}
			asked = append(asked, fmt.Sprintf("%s in policy %s", value, policy))
			if templated(value) {
				continue
			}
			differ = differ || before != "" && value != before
			before = value
		}
	}
	return asked, differ
}
