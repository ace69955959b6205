package architecture

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// updateTour rewrites the table of roles, and the code tours where functions have moved: go test ./internal/architecture -run CodeTour -update.
var updateTour = flag.Bool("update", false, "write the table of roles, and the files of functions that have moved in the code tours")

var (
	// tourRow is a row of a code tour: a step, its file, and functions or types that the file declares.
	tourRow  = regexp.MustCompile("(?m)^\\|([^|]*)\\| `([^`|]*)` \\|([^|]*)\\|$")
	tourName = regexp.MustCompile("`(\\w+)`")
)

// TestPathsInPagesForContributorsExist checks the paths of the source that these pages name in backquotes. Decision records are history, and may name
// files that have moved.
func TestPathsInPagesForContributorsExist(t *testing.T) {
	path := regexp.MustCompile("`((?:workflows|activities|internal|starter|worker|deploy|docs)/[\\w./-]*)`")
	checked := 0
	for _, page := range pages(t) {
		if filepath.Base(filepath.Dir(page)) != "contributing" && filepath.Base(page) != "CONTRIBUTING.md" {
			continue
		}
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, match := range path.FindAllStringSubmatch(string(text), -1) {
			checked++
			if _, err := os.Stat(filepath.Join(root, match[1])); err != nil {
				t.Errorf("%s: %s does not exist", page, match[1])
			}
		}
	}
	require.Greater(t, checked, 30)
}

// TestACodeTourNamesTheFileOfEachFunction checks that each function of a code tour is declared in the file of its row.
func TestACodeTourNamesTheFileOfEachFunction(t *testing.T) {
	tours, err := filepath.Glob(filepath.Join(root, "docs/contributing/code-tour*.md"))
	require.NoError(t, err)
	require.Len(t, tours, 2)
	sources := goSources(t)
	for _, page := range tours {
		t.Run(filepath.Base(page), func(t *testing.T) { checkTour(t, page, sources) })
	}
}

func checkTour(t *testing.T, page string, sources map[string]string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	rows := 0
	current := tourRow.ReplaceAllStringFunc(string(text), func(row string) string {
		match := tourRow.FindStringSubmatch(row)
		file, names := match[2], namesIn(match[3])
		rows++
		if source, exists := sources[file]; exists && declares(source, names) {
			return row
		}
		found := declaring(sources, file, names)
		if *updateTour && len(found) == 1 {
			return strings.Replace(row, file, found[0], 1)
		}
		t.Errorf("%s does not declare %s (step:%s); candidates: %s", file, strings.Join(names, ", "), match[1], strings.Join(found, ", "))
		return row
	})
	require.Greater(t, rows, 30)
	if *updateTour {
		require.NoError(t, os.WriteFile(page, []byte(current), 0o644))
	}
}

func namesIn(cell string) (names []string) {
	for _, match := range tourName.FindAllStringSubmatch(cell, -1) {
		names = append(names, match[1])
	}
	return names
}

// goSources are the Go files of the tree, by path.
func goSources(t *testing.T) map[string]string {
	t.Helper()
	sources := map[string]string{}
	for _, tree := range []string{"workflows", "activities", "internal", "starter", "worker"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, tree), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" {
				return err
			}
			text, err := os.ReadFile(path)
			within, _ := filepath.Rel(root, path)
			sources[filepath.ToSlash(within)] = string(text)
			return err
		}))
	}
	return sources
}

func declares(source string, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		return !regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type )` + name + `\b`).MatchString(source)
	})
}

// declaring finds candidates for a file: files that declare all names, or files with the same name if the row has no names.
func declaring(sources map[string]string, file string, names []string) (found []string) {
	for path, source := range sources {
		sameKind := strings.HasSuffix(path, "_test.go") == strings.HasSuffix(file, "_test.go")
		switch {
		case !sameKind:
		case len(names) > 0 && declares(source, names), len(names) == 0 && filepath.Base(path) == filepath.Base(file):
			found = append(found, path)
		}
	}
	slices.Sort(found)
	return found
}
