// Package v1alpha1 holds the node maintenance kinds of maintenance.nvidia.com. Fields marked (addition)
// are Drydock's own; all others are as the upstream CRD has them.
package v1alpha1
