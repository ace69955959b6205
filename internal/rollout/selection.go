package rollout

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// selectClusters returns the listed clusters in their order and then, by name, those that selectors select. problems are all errors of the selection.
func selectClusters(spec *ranv1.ClusterGroupUpgradeSpec, clusters []Cluster) (selected, problems []string) {
	if len(spec.Clusters)+len(spec.ClusterLabelSelectors)+len(spec.ClusterSelector) == 0 {
		return nil, []string{"nothing to select from: set spec.clusters, spec.clusterLabelSelectors or spec.clusterSelector"}
	}
	exists := map[string]bool{}
	for _, cluster := range clusters {
		exists[cluster.Name] = true
	}
	chosen := map[string]bool{}
	var unknown []string
	for _, name := range spec.Clusters {
		if chosen[name] {
			continue
		}
		chosen[name] = true
		selected = append(selected, name)
		if !exists[name] {
			unknown = append(unknown, name)
		}
	}
	problems = append(problems, eachOrSome(unknown, "cluster %s is not a ManagedCluster", "%d clusters are not ManagedClusters")...)
	selectors, invalid := Selectors(spec)
	for _, problem := range invalid {
		problems = append(problems, problem.Error())
	}
	selected = append(selected, matching(selectors, clusters, chosen)...)

	var unlisted []string
	for i, canary := range spec.RemediationStrategy.Canaries {
		if !slices.Contains(selected, canary) && !slices.Contains(spec.RemediationStrategy.Canaries[:i], canary) {
			unlisted = append(unlisted, canary)
		}
	}
	return selected, append(problems, eachOrSome(unlisted, "canary cluster %s is not in the list of clusters", "%d canaries are not in the list of clusters")...)
}

// Selected returns the clusters that a rollout selects, also if its selection has errors.
func Selected(spec *ranv1.ClusterGroupUpgradeSpec, clusters []Cluster) []string {
	selected, _ := selectClusters(spec, clusters)
	return selected
}

// namedUnknown is the number of names that a message lists.
const namedUnknown = 3

// eachOrSome reports each of a few names, or the number of many and some of them: a list of thousands hides the reason.
func eachOrSome(names []string, each, many string) []string {
	if len(names) > namedUnknown {
		return []string{fmt.Sprintf(many, len(names)) + ", such as " + strings.Join(names[:namedUnknown], ", ")}
	}
	var problems []string
	for _, name := range names {
		problems = append(problems, fmt.Sprintf(each, name))
	}
	return problems
}

// matching returns, by name, the clusters that a selector selects and that are not chosen yet.
func matching(selectors []labels.Selector, clusters []Cluster, chosen map[string]bool) []string {
	var picked []string
	for _, cluster := range clusters {
		picks := func(selector labels.Selector) bool { return selector.Matches(labels.Set(cluster.Labels)) }
		if !chosen[cluster.Name] && slices.ContainsFunc(selectors, picks) {
			chosen[cluster.Name] = true
			picked = append(picked, cluster.Name)
		}
	}
	slices.Sort(picked)
	return picked
}

// Selectors parses both forms of cluster selectors. The errors name the paths of invalid ones.
func Selectors(spec *ranv1.ClusterGroupUpgradeSpec) ([]labels.Selector, field.ErrorList) {
	var selectors []labels.Selector
	var invalid field.ErrorList
	for i := range spec.ClusterLabelSelectors {
		path := field.NewPath("spec", "clusterLabelSelectors").Index(i)
		problems := validation.ValidateLabelSelector(&spec.ClusterLabelSelectors[i], validation.LabelSelectorValidationOptions{}, path)
		selector, err := metav1.LabelSelectorAsSelector(&spec.ClusterLabelSelectors[i])
		if err != nil && len(problems) == 0 {
			problems = field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
		}
		if len(problems) > 0 {
			invalid = append(invalid, problems...)
			continue
		}
		selectors = append(selectors, selector)
	}
	for i, text := range spec.ClusterSelector {
		selector, err := parseSelector(text)
		if err != nil {
			invalid = append(invalid, field.Invalid(field.NewPath("spec", "clusterSelector").Index(i), text, err.Error()))
			continue
		}
		selectors = append(selectors, selector)
	}
	return selectors, invalid
}

// parseSelector parses "key=value", or "key" for that label with an empty value.
func parseSelector(text string) (labels.Selector, error) {
	key, value, _ := strings.Cut(text, "=")
	selector, err := labels.ValidatedSelectorFromSet(labels.Set{key: value})
	if err != nil {
		return nil, fmt.Errorf("must be key=value, or key for that label with an empty value: %w", err)
	}
	return selector, nil
}

// UnableToSelect begins the message of a selection with problems, as in the original operator.
const UnableToSelect = "Unable to select clusters: "

func selectionVerdict(selected, problems []string) verdict {
	if len(problems) > 0 {
		return verdict{
			condition: ranv1.ConditionClustersSelected, reason: ranv1.ReasonClusterNotFound,
			message: UnableToSelect + strings.Join(problems, "; "),
		}
	}
	message := "All selected clusters are valid"
	if len(selected) == 0 {
		message += "; none is selected"
	}
	return verdict{condition: ranv1.ConditionClustersSelected, reason: ranv1.ReasonClusterSelectionCompleted, message: message, good: true}
}
