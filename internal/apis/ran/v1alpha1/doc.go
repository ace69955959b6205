// Package v1alpha1 holds the cluster group upgrade kinds of ran.openshift.io. Fields marked (addition)
// are Drydock's own; all others are as the upstream CRD has them.
package v1alpha1
