package temporal

import "unicode/utf8"

// Cut shortens a text to at most limit bytes, at a character's end; then it ends in "...". What the server keeps of a text is limited.
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
