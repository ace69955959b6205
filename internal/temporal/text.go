package temporal

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

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
