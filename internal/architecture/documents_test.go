package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// link is one of Markdown, to a file or a chapter: [words](path#chapter).
	link    = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
	// punctuation is what the anchor of a chapter does not have of its heading.
	punctuation = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinksInTheDocumentationLeadSomewhere follows those that stay within the tree, to files and to chapters.
func TestLinksInTheDocumentationLeadSomewhere(t *testing.T) {
	var paths []string
	for _, pattern := range []string{"README.md", "docs/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		paths = append(paths, found...)
	}
	anchors := map[string]map[string]bool{}
	for _, path := range paths {
		anchors[path] = anchorsIn(t, path)
	}
	followed := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, match := range link.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
			target, chapter, within := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			followed++
			file := path
			if target != "" {
				file = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %s leads nowhere", path, match[1])
			} else if within && !anchors[file][chapter] {
				t.Errorf("%s: %s: no such chapter", path, match[1])
			}
		}
	}
	require.Greater(t, followed, 50)
}

// anchorsIn are the chapters of a document, as links name them.
func anchorsIn(t *testing.T, path string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	found := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
		found[strings.ReplaceAll(punctuation.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")] = true
	}
	return found
}
