package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra/doc"
	"github.com/stretchr/testify/require"
)

// reference is the directory of the pages, one for each command.
const reference = "../docs/reference/cli"

var generate = flag.Bool("generate", false, "write the reference of the commands instead of comparing it")

// TestReferenceMatchesTheCommands compares the pages in the repository with those that cobra generates from the commands.
func TestReferenceMatchesTheCommands(t *testing.T) {
	isolate(t)
	root := newRoot(&cli{})
	root.DisableAutoGenTag = true // it has the date
	root.InitDefaultCompletionCmd()
	generated := t.TempDir()
	if *generate {
		generated = reference
		require.NoError(t, os.RemoveAll(generated))
		require.NoError(t, os.MkdirAll(generated, 0o755))
	}
	require.NoError(t, doc.GenMarkdownTree(root, generated))
	require.Equal(t, pages(t, generated), pages(t, reference), "make generate writes the reference")
}

// pages returns the texts of the pages in a directory by their file names.
func pages(t *testing.T, directory string) map[string]string {
	t.Helper()
	return pagesIn(t, directory, "*.md")
}

func pagesIn(t *testing.T, directory, pattern string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	files, err := filepath.Glob(filepath.Join(directory, pattern))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		texts[filepath.Base(file)] = string(text)
	}
	return texts
}
