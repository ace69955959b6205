// Package v1alpha1 holds what only Drydock has: workload lock policies, health checks, and the
// shared words of every status (why something waits, and for whom).
package v1alpha1
