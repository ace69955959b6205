// Package crds contains the CustomResourceDefinitions of the kinds that Drydock reads. They are generated from the API types.
package crds

import "embed"

// Files are the definitions, one per file.
//
//go:embed *.yaml
var Files embed.FS
