package content_test

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"drydock.dev/drydock/internal/prepare/content"
)

func TestPatternsMatchAsInGrep(t *testing.T) {
	patterns := []string{
		"aws", "^aws", "aws$", "a.s", "a*w", "*aws", "^*aws", "a+", `a\+w`, `a\?w`, "a?w", "(aws)", `\(aws\)`, `\(a\|b\)w`, "a|b", `aw\{1,2\}s`, `w\{2\}`, `w\{,1\}s`, "a{1}",
		"[ab]ws", "[^a]ws", "[]a]ws", "[^]a]ws", `[\a]w`, "[[:alpha:]]ws", `a\.s`, `\<aws\>`, `\bws`, `\w*-`, `\W`, "a^w", "a$w", "^", "$", `x\|^aws`, `\(^aws\)`, `\(*a\)`,
	}
	texts := []string{"aws", "xaws", "awsx", "a+w", "a?w", "aws-cloud", "(aws)", "bws", "]ws", "a|b", "awws", "a{1}", `\w`, "a.s", "a^w", "a$w", "*aws", "w", ""}
	for _, pattern := range patterns {
		requireSameAsGrep(t, pattern, texts)
	}
}

func TestRandomPatternsMatchAsInGrep(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		part := rapid.SampledFrom([]string{"a", "b", ".", "x*", `\(`, `\)`, `\|`, "^", "$", "[ab]", "[^a]", `y\+`, `z\?`, "(", ")", "|", "+", "{", `\.`})
		pattern := strings.Join(rapid.SliceOfN(part, 1, 6).Draw(r, "pattern"), "")
		texts := rapid.SliceOfN(rapid.StringMatching(`[abxyz().|+^$]{0,5}`), 1, 8).Draw(r, "texts")
		requireSameAsGrep(r, pattern, texts)
	})
}

// requireSameAsGrep compares the texts that match with those that grep prints. A pattern that grep refuses has no meaning.
func requireSameAsGrep(t require.TestingT, pattern string, texts []string) {
	grep := exec.Command("grep", "-G", "-n", "-e", pattern)
	grep.Env = []string{"LC_ALL=C.UTF-8"}
	grep.Stdin = strings.NewReader(strings.Join(texts, "\n") + "\n")
	output, err := grep.Output()
	if exit, failed := err.(*exec.ExitError); failed && exit.ExitCode() > 1 {
		return
	}
	compiled, err := content.CompileBasic(pattern)
	require.NoError(t, err, "%q", pattern)
	for i, text := range texts {
		found := strings.Contains("\n"+string(output), "\n"+strconv.Itoa(i+1)+":")
		require.Equal(t, found, compiled.MatchString(text), "pattern %q, text %q, Go pattern %q", pattern, text, compiled)
	}
}

func TestPatternsWithoutMeaningAreRefused(t *testing.T) {
	for _, pattern := range []string{"[a", "[[:alpha:]", "[[:alpha", `a\`, `\(a`, `a\)`, `\(a\)\1`, `a\{2`, `a\}`, `a\{2,1\}`} {
		_, err := content.CompileBasic(pattern)
		require.Error(t, err, pattern)
	}
}
