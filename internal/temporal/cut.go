package temporal

import "unicode/utf8"

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
