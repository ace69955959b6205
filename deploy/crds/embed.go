// Package crds holds the CustomResourceDefinitions of the kinds that Drydock reads, as the API types' markers generate them.
package crds

import "embed"

// Files are the definitions, one a file.
//
//go:embed *.yaml
var Files embed.FS
