package content

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// CompileBasic compiles a basic regular expression, as grep has them: ( ) { } | + and ? have a meaning only after a backslash. Back-references are
// refused.
func CompileBasic(pattern string) (*regexp.Regexp, error) {
	t := translator{rest: pattern}
	for t.rest != "" {
		if err := t.next(); err != nil {
			return nil, err
		}
	}
	return regexp.Compile(t.translated.String())
}

// intervalForm is how often something is repeated.
var intervalForm = regexp.MustCompile(`^\\\{([0-9]*)((?:,[0-9]*)?)\\\}`)

// translator writes a basic regular expression in the syntax of Go.
type translator struct {
	rest       string
	translated strings.Builder
	at         position
}

// position decides what ^ and * mean.
type position int

const (
	// beginning of the expression, a group or an alternative: ^ is an anchor, and * a character.
	beginning position = iota
	// afterAnchor both are characters.
	afterAnchor
	// inside ^ is a character, and * repeats.
	inside
)

func (t *translator) next() error {
	c := t.rest[0]
	switch {
	case c == '\\':
		return t.escape()
	case c == '[':
		return t.bracket()
	case c == '^' && t.at == beginning:
		t.write(1, "^", afterAnchor)
	case c == '*' && t.at == inside:
		t.write(1, "*", inside)
	case c == '.':
		t.write(1, ".", inside)
	case c == '$' && t.atEnd():
		t.write(1, "$", inside)
	default:
		// Other characters stand for themselves. A part of one that has several bytes does, too.
		t.write(1, quoted(c), inside)
	}
	return nil
}

func quoted(c byte) string {
	if c >= 0x80 {
		return string([]byte{c})
	}
	return regexp.QuoteMeta(string(rune(c)))
}

// atEnd reports whether $ is an anchor here: at the end of the expression, a group or an alternative.
func (t *translator) atEnd() bool {
	after := t.rest[1:]
	return after == "" || strings.HasPrefix(after, `\)`) || strings.HasPrefix(after, `\|`)
}

func (t *translator) write(read int, text string, at position) {
	t.rest = t.rest[read:]
	t.translated.WriteString(text)
	t.at = at
}

func (t *translator) escape() error {
	if len(t.rest) == 1 {
		return fmt.Errorf("it ends with a backslash")
	}
	c := t.rest[1]
	switch {
	case c == '(' || c == '|':
		t.write(2, string(c), beginning)
	case c == ')':
		t.write(2, string(c), inside)
	case c == '{' || c == '}':
		interval := intervalForm.FindStringSubmatch(t.rest)
		if interval == nil {
			return fmt.Errorf(`an interval is not of the form \{1\}, \{1,\}, \{,2\} or \{1,2\}`)
		}
		t.write(len(interval[0]), "{"+cmp.Or(interval[1], "0")+interval[2]+"}", inside)
	case strings.IndexByte("wWsSbB", c) >= 0:
		t.write(2, t.rest[:2], inside)
	case (c == '+' || c == '?') && t.at == inside:
		t.write(2, string(c), inside)
	case c == '<' || c == '>':
		t.write(2, `\b`, inside)
	case c >= '1' && c <= '9':
		return fmt.Errorf("back-references, such as \\%c, are not supported", c)
	default:
		t.write(2, quoted(c), inside)
	}
	return nil
}

// bracket copies a list of characters. A backslash is a character in it.
func (t *translator) bracket() error {
	end := 1
	if strings.HasPrefix(t.rest[end:], "^") {
		end++
	}
	// A bracket that comes first is a character.
	if strings.HasPrefix(t.rest[end:], "]") {
		end++
	}
	for end < len(t.rest) && t.rest[end] != ']' {
		if strings.HasPrefix(t.rest[end:], "[:") {
			class := strings.Index(t.rest[end:], ":]")
			if class < 0 {
				return fmt.Errorf("a class such as [:alpha:] has no end")
			}
			end += class + 1
		}
		end++
	}
	if end == len(t.rest) {
		return fmt.Errorf("a list in brackets has no end")
	}
	t.write(end+1, strings.ReplaceAll(t.rest[:end+1], `\`, `\\`), inside)
	return nil
}
