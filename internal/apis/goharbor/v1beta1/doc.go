// Package v1beta1 holds HarborCluster, a Harbor with the services it depends on, of the group goharbor.io. Field names are those of the
// Harbor operator; fields marked (addition) are Drydock's own. What only Harbor itself reads is not typed here: it is passed on as it is.
package v1beta1
