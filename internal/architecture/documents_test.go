package architecture

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// link is one of Markdown, to a file or a chapter: [words](path#chapter).
	link    = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
	// inline is code within a line, such as a pattern that looks like a link.
	inline = regexp.MustCompile("`[^`\n]*`")
	// punctuation is removed from a heading in its anchor.
	punctuation = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// It checks links within the tree, to files and to chapters.
func TestLinksInTheDocumentationAreValid(t *testing.T) {
	paths := pages(t)
	anchors := map[string]map[string]bool{}
	for _, path := range paths {
		anchors[path] = anchorsIn(t, path)
	}
	followed := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, match := range link.FindAllStringSubmatch(inline.ReplaceAllString(fence.ReplaceAllString(string(text), ""), ""), -1) {
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

// pages are the README, SECURITY.md and all Markdown files below docs.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{filepath.Join(root, "README.md"), filepath.Join(root, "SECURITY.md")}
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			found = append(found, path)
		}
		return err
	}))
	require.Greater(t, len(found), 10)
	return found
}

// docs/README.md links to each page, or to the README of its directory.
func TestTheIndexListsEveryPage(t *testing.T) {
	docs := filepath.Join(root, "docs")
	index, err := os.ReadFile(filepath.Join(docs, "README.md"))
	require.NoError(t, err)
	listed := map[string]bool{}
	for _, match := range link.FindAllStringSubmatch(string(index), -1) {
		listed[filepath.Join(docs, match[1])] = true
	}
	for _, path := range pages(t)[2:] {
		ownIndex := filepath.Join(filepath.Dir(path), "README.md")
		cli := filepath.Dir(path) == filepath.Join(docs, "reference", "cli") // its pages link to each other
		if !listed[path] && !listed[ownIndex] && !cli && path != filepath.Join(docs, "README.md") {
			t.Errorf("docs/README.md does not list %s", path)
		}
	}
}

// The limit applies to pages that people write, not to generated ones.
func TestPagesAreShort(t *testing.T) {
	const limit = 200
	for _, path := range pages(t) {
		if filepath.Dir(filepath.Dir(path)) == filepath.Join(root, "docs", "reference") {
			continue // generated: of the CLI and of the API
		}
		if filepath.Base(path) == "CHANGELOG.md" {
			continue // it grows with the releases
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		if lines := strings.Count(string(text), "\n"); lines > limit {
			t.Errorf("%s has %d lines, at most %d", path, lines, limit)
		}
	}
}

// It checks the paths of pages in Go files, examples and manifests.
func TestPagesThatTheSourceNamesExist(t *testing.T) {
	page := regexp.MustCompile(`\bdocs/[\w/-]+\.md\b`)
	seen := 0
	for _, tree := range []string{"workflows", "activities", "worker", "starter", "internal", "deploy", "docs/examples"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, tree), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !slices.Contains([]string{".go", ".yaml", ".sh"}, filepath.Ext(path)) {
				return err
			}
			text, err := os.ReadFile(path)
			for _, named := range page.FindAllString(string(text), -1) {
				seen++
				if _, err := os.Stat(filepath.Join(root, named)); err != nil {
					t.Errorf("%s names %s, which does not exist", path, named)
				}
			}
			return err
		}))
	}
	require.NotZero(t, seen)
}

// anchorsIn returns the anchors of the chapters of a document.
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
