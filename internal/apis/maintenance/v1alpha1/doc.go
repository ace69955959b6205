// Package v1alpha1 holds the node maintenance kinds of maintenance.nvidia.com.
package v1alpha1
