// Package rbac contains the roles of Drydock's worker, one file for each use of a cluster.
package rbac

import "embed"

// Files are the manifests.
//
//go:embed *.yaml
var Files embed.FS
