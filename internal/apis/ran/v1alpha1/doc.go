// Package v1alpha1 holds the cluster group upgrade kinds of ran.openshift.io.
package v1alpha1
