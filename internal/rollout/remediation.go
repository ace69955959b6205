package rollout

import ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"

// Remediation is the work of a rollout on a cluster.
type Remediation int

// The remediations.
const (
	// Nothing: the rollout only changes labels and annotations.
	Nothing Remediation = iota
	ManagedPolicies
	ManifestWorks
	NodeMaintenance
)

// RemediationOf returns the work of a rollout on a cluster.
func RemediationOf(cgu *ranv1.ClusterGroupUpgrade) Remediation {
	switch {
	case cgu.Spec.NodeMaintenance != nil:
		return NodeMaintenance
	case len(cgu.Spec.ManifestWorkTemplates) > 0:
		return ManifestWorks
	case len(cgu.Spec.ManagedPolicies) > 0:
		return ManagedPolicies
	}
	return Nothing
}

// InProgress is the message of the condition Progressing while the rollout works.
func (r Remediation) InProgress() string {
	switch r {
	case NodeMaintenance:
		return "Maintaining nodes"
	case ManifestWorks:
		return "Rolling out manifestworks"
	}
	return "Remediating non-compliant policies"
}

// Cancelling describes running clusters whose work is cancelled.
func (r Remediation) Cancelling() string {
	switch r {
	case NodeMaintenance:
		return "clusters that return their nodes"
	case ManifestWorks:
		return "clusters whose manifestworks are deleted"
	}
	return "clusters that are taken off the placements of their policies"
}

func (r Remediation) completed() string {
	switch r {
	case NodeMaintenance:
		return "Node maintenance is complete on all clusters"
	case ManifestWorks:
		return "All manifestworks rolled out successfully on all clusters"
	}
	return "All clusters are compliant with all the managed policies"
}

func (r Remediation) timedOut() string {
	switch r {
	case NodeMaintenance:
		return "Node maintenance took too long"
	case ManifestWorks:
		return "Manifestwork rollout took too long"
	}
	return "Policy remediation took too long"
}
