package temporal

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// waitMessageLimit limits the message of a wait and of each blocker, in bytes. They quote statuses that others write.
const waitMessageLimit = 2000

// Cut shortens a text to at most limit bytes, at the end of a character, and then ends it in "...". The server limits the size of texts.
func Cut(text string, limit int) string {
	const mark = "..."
	if len(text) <= limit {
		return text
	}
	text = text[:limit-len(mark)]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + mark
}

// CutWait shortens the messages of a wait and of its blockers.
func CutWait(wait drydockv1.Wait) drydockv1.Wait {
	wait.Message = Cut(wait.Message, waitMessageLimit)
	wait.Blockers = cutBlockers(wait.Blockers)
	return wait
}

func cutBlockers(blockers []drydockv1.Blocker) []drydockv1.Blocker {
	blockers = slices.Clone(blockers)
	for i := range blockers {
		blockers[i].Message = Cut(blockers[i].Message, waitMessageLimit)
	}
	return blockers
}

// Invisible reports control characters, except line breaks and tabs, and characters that change the direction of text. In the text of others they could hide
// or reorder what a person reads.
func Invisible(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// Visible replaces invisible characters.
func Visible(text string) string {
	return strings.Map(func(r rune) rune {
		if Invisible(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
