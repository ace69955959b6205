package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
)

// OnboardingNamespace is the namespace of the rollouts that onboard clusters.
const OnboardingNamespace = "ztp-install"

// The labels with the onboarding state of a ManagedCluster, and the annotation with the wave of a policy.
const (
	LabelOnboarding      = "ztp-running"
	LabelOnboarded       = "ztp-done"
	annotationDeployWave = "ran.openshift.io/ztp-deploy-wave"
)

// ToOnboard reports whether a ManagedCluster is Available and has not been onboarded.
func ToOnboard(cluster *unstructured.Unstructured) bool {
	_, done := cluster.GetLabels()[LabelOnboarded]
	return !done && cluster.GetDeletionTimestamp() == nil && policies.Available(cluster)
}

// OnboardingPolicies are the names of the root policies of the replicas of a cluster, by wave and then by name. It omits policies without a wave. A replica
// that enforces may do so only for now, because of another rollout: the plan decides by the root policies. The error names every policy whose wave is not a
// whole number.
func OnboardingPolicies(replicas []unstructured.Unstructured) ([]string, error) {
	waves := map[string]int{}
	var wrong []string
	for i := range replicas {
		replica := &replicas[i]
		root, isReplica := replica.GetLabels()[policies.LabelRoot]
		text, inWave := replica.GetAnnotations()[annotationDeployWave]
		if !isReplica || !inWave {
			continue
		}
		wave, err := strconv.Atoi(text)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("policy %s: annotation %s: %q is not a whole number", root, annotationDeployWave, text))
			continue
		}
		// The label of a replica is <namespace>.<name> of its root, and a namespace has no dots.
		_, name, _ := strings.Cut(root, ".")
		waves[name] = wave
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return nil, fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	names := make([]string, 0, len(waves))
	for name := range waves {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(waves[a], waves[b]), cmp.Compare(a, b)) })
	return names, nil
}

// OnboardingRollout is the rollout that onboards a cluster. Without policies it only labels the cluster. It sets every field that has a default, so
// that an edit does not change them.
func OnboardingRollout(cluster string, managed []string) ranv1.ClusterGroupUpgrade {
	return ranv1.ClusterGroupUpgrade{
		TypeMeta:   metav1.TypeMeta{APIVersion: ranv1.GroupVersion.String(), Kind: "ClusterGroupUpgrade"},
		ObjectMeta: metav1.ObjectMeta{Namespace: OnboardingNamespace, Name: cluster},
		Spec: ranv1.ClusterGroupUpgradeSpec{
			Clusters:        []string{cluster},
			Enable:          new(true),
			ManagedPolicies: managed,
			RemediationStrategy: ranv1.RemediationStrategy{
				MaxConcurrency: intstr.FromInt32(1), Timeout: 240, Rollout: ranv1.Batched, OfflineAction: ranv1.OfflineDefer,
			},
			BatchTimeoutAction: ranv1.BatchTimeoutContinue,
			Actions: ranv1.Actions{
				BeforeEnable: &ranv1.BeforeEnable{AddClusterLabels: map[string]string{LabelOnboarding: ""}},
				AfterCompletion: &ranv1.AfterCompletion{
					AddClusterLabels: map[string]string{LabelOnboarded: ""}, RemoveClusterLabels: []string{LabelOnboarding}, DeleteObjects: new(true),
				},
			},
		},
	}
}
