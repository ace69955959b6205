// Package docs has the pages that programs show.
package docs

import _ "embed"

// Troubleshoot is the page with every reason to wait.
//
//go:embed how-to/troubleshoot.md
var Troubleshoot string
