// Package v1alpha1 holds the status page kinds of sreportal.io: maintenances that are announced, incidents, and the components that both affect. Fields marked (addition)
// are Drydock's own; all others are as the upstream CRD has them.
package v1alpha1
