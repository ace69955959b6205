// Package v1alpha1 holds the workload lock kinds of lcm.mirantis.com: maintenance requests, which
// announce a disruption, and workload locks, with which an application vetoes it. Fields marked (addition)
// are Drydock's own; all others are as the upstream CRD has them.
package v1alpha1
