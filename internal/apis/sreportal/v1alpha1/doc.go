// Package v1alpha1 holds the status page kinds of sreportal.io: maintenances that are announced, and the components that they affect.
package v1alpha1
