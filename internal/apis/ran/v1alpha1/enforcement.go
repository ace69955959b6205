package v1alpha1

// PolicyEnforcement is how inform policies are enforced on the clusters of the current batch.
// +kubebuilder:validation:Enum=Copy;Override
type PolicyEnforcement string

// The ways of enforcement.
const (
	// EnforceCopy: by a copy of each policy, in the rollout's namespace, that enforces.
	EnforceCopy PolicyEnforcement = "Copy"
	// EnforceOverride: by a binding of the policy itself, in its namespace, that overrides its action.
	EnforceOverride PolicyEnforcement = "Override"
)

// PlacementKind is the kind of the objects on the hub that list the clusters of a binding.
// +kubebuilder:validation:Enum=Placement;PlacementRule
type PlacementKind string

// The kinds of placements.
const (
	// KindPlacement selects clusters of the sets that are bound to its namespace.
	KindPlacement PlacementKind = "Placement"
	// KindPlacementRule is its predecessor, which hubs no longer maintain.
	KindPlacementRule PlacementKind = "PlacementRule"
)

// EnforcementStatus is how a run enforces its policies.
type EnforcementStatus struct {
	By         PolicyEnforcement `json:"by"`
	Placements PlacementKind     `json:"placements"`
}
