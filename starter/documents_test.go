package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// document is a page with commands.
type document struct{ path, text string }

func documents(t *testing.T) []document {
	t.Helper()
	paths, err := filepath.Glob("../docs/examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	paths = append(paths, "../README.md")
	require.NoError(t, filepath.WalkDir("../docs", func(path string, entry fs.DirEntry, err error) error {
		// The reference of the CLI is generated from the commands, so it does not count as documentation of a flag.
		if err == nil && entry.IsDir() && path == filepath.Join("..", "docs", "reference", "cli") {
			return fs.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			paths = append(paths, path)
		}
		return err
	}))
	var found []document
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		found = append(found, document{path, string(text)})
	}
	return found
}

var (
	// typedForms match command lines: after a prompt, or in the first comment of an example.
	typedForms = regexp.MustCompile(`(?m)^(?:\$ |#   )(?:.*(?:;|&&|do) )?drydock ([^\n]*)`)
	// namedForms match commands in sentences, where operands may be omitted.
	namedForms = regexp.MustCompile("`drydock ([^`\n]*)`")
	// endOfCommand matches the end of a command: a shell operator, or a comment.
	endOfCommand = regexp.MustCompile(`\s+#.*|\s*[;|&].*|\s+\d?>.*`)
	// words of a command line: quoted, or without blanks.
	words = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`)
)

// wordsOf returns the arguments of a command line.
func wordsOf(line string) []string {
	found := words.FindAllString(endOfCommand.ReplaceAllString(line, ""), -1)
	for i := range found {
		found[i] = strings.NewReplacer("'", "", `"`, "").Replace(found[i])
	}
	return found
}

func TestEveryCommandInTheDocumentationExists(t *testing.T) {
	isolate(t)
	typed := 0
	for _, document := range documents(t) {
		for _, match := range typedForms.FindAllStringSubmatch(document.text, -1) {
			typed++
			cmd := requireCommand(t, document.path, match[1])
			require.NoError(t, cmd.ValidateArgs(cmd.Flags().Args()), "%s: drydock %s", document.path, match[1])
			require.NoError(t, cmd.ValidateRequiredFlags(), "%s: drydock %s", document.path, match[1])
		}
		for _, match := range namedForms.FindAllStringSubmatch(document.text, -1) {
			requireCommand(t, document.path, match[1])
		}
	}
	require.Greater(t, typed, 50)
}

// requireCommand requires that the command exists, with these flags.
func requireCommand(t *testing.T, path, line string) *cobra.Command {
	t.Helper()
	cmd, rest, err := newRoot(&cli{}).Find(wordsOf(line))
	require.NoError(t, err, "%s: drydock %s", path, line)
	require.True(t, cmd.Runnable(), "%s: drydock %s: %s does nothing by itself", path, line, cmd.CommandPath())
	cmd.InitDefaultVersionFlag()
	if err := cmd.ParseFlags(rest); !errors.Is(err, pflag.ErrHelp) {
		require.NoError(t, err, "%s: drydock %s", path, line)
	}
	return cmd
}

func TestTheDocumentationNamesEveryVerbAndFlag(t *testing.T) {
	var text strings.Builder
	for _, document := range documents(t) {
		text.WriteString(document.text)
	}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		if !cmd.Runnable() || cmd.Hidden {
			return
		}
		verb := strings.TrimPrefix(cmd.CommandPath(), "drydock ")
		if !regexp.MustCompile("[`$#;].*\\b" + verb + `\b`).MatchString(text.String()) {
			t.Errorf("name the command drydock %s in a page that is written by hand (README.md, docs/how-to, docs/reference/*.md)", verb)
		}
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if flag.Hidden {
				return // a former name
			}
			form := "--" + flag.Name
			if flag.Shorthand != "" {
				form += "|[` ]-" + flag.Shorthand
			}
			if !regexp.MustCompile("(" + form + `)\b`).MatchString(text.String()) {
				t.Errorf("name the flag --%[2]s of drydock %[1]s in a page that is written by hand (README.md, docs/how-to, docs/reference/*.md)", verb, flag.Name)
			}
		})
	}
	visit(newRoot(&cli{}))
}

func TestEveryFlagInTheDocumentationExists(t *testing.T) {
	known := []string{"--help", "--version"}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) { known = append(known, "--"+flag.Name) })
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(&cli{}))
	all := documents(t)
	// A test of the worker checks the table of its flags.
	row := regexp.MustCompile("(?m)^\\| (`--.*?) \\|")
	flag := regexp.MustCompile("`(--[a-z][a-z-]*)")
	for _, document := range all {
		for _, match := range row.FindAllStringSubmatch(document.text, -1) {
			for _, name := range flag.FindAllStringSubmatch(match[1], -1) {
				known = append(known, name[1])
			}
		}
	}
	for _, document := range all {
		for _, name := range flag.FindAllStringSubmatch(document.text, -1) {
			require.True(t, slices.Contains(known, name[1]), "%s: no command has a flag %s", document.path, name[1])
		}
	}
}
