// Package v1alpha1 holds the workload lock kinds of lcm.mirantis.com: maintenance requests, which
// announce a disruption, and workload locks, with which an application vetoes it.
package v1alpha1
