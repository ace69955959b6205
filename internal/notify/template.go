package notify

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Text is a notification as people read it.
type Text struct {
	// Title is one line.
	Title string
	Body  string
}

// A template has no loops, no templates that it calls, and no functions that make long texts of short ones. So the time of its execution is limited by its
// length, and the length of its output is limited here.
const (
	maxTitle = 500
	maxBody  = 16 << 10
)

// functions are those that a template may call.
var functions = map[string]any{
	"and": true, "or": true, "not": true, "eq": true, "ne": true, "lt": true, "le": true, "gt": true, "ge": true, "len": true, "index": true, "slice": true,
}

// Render returns the text of a notification by the template of its receiver, or the default where the template says nothing. If the template fails, which
// CheckTemplate makes unlikely, the body is the default with the error below it.
func Render(by *drydockv1.NotificationTemplate, standard Text, data any) Text {
	text := standard
	if by != nil {
		title, titleErr := execute(by.Title, data, maxTitle)
		body, bodyErr := execute(by.Body, data, maxBody)
		if err := errors.Join(titleErr, bodyErr); err != nil {
			text.Body += "\n\nthe template of this notification fails: " + err.Error()
		} else {
			if by.Title != "" {
				text.Title = title
			}
			if by.Body != "" {
				text.Body = body
			}
		}
	}
	return Text{Title: oneLine(text.Title), Body: text.Body}
}

// oneLine replaces line breaks and other control characters by spaces.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(char rune) bool { return unicode.IsSpace(char) || unicode.IsControl(char) }), " ")
}

// CheckTemplate returns the errors of a template, which it executes with each of the samples. at is its path; nil: there is no template.
func CheckTemplate(at *field.Path, checked *drydockv1.NotificationTemplate, samples ...any) field.ErrorList {
	var invalid field.ErrorList
	if checked == nil {
		return nil
	}
	for _, part := range []struct{ name, text string }{{"title", checked.Title}, {"body", checked.Body}} {
		parsed, err := parseTemplate(part.text)
		for i := 0; err == nil && i < len(samples); i++ {
			_, err = output(parsed, samples[i], maxBody)
		}
		if err != nil {
			invalid = append(invalid, field.Invalid(at.Child(part.name), field.OmitValueType{}, err.Error()))
		}
	}
	return invalid
}

// execute returns the output of a template, cut to a limit in bytes.
func execute(text string, data any, limit int) (string, error) {
	parsed, err := parseTemplate(text)
	if err != nil {
		return "", err
	}
	return output(parsed, data, limit)
}

func parseTemplate(text string) (*template.Template, error) {
	trees, err := parse.Parse("template", text, "", "", functions)
	if err != nil {
		return nil, err
	}
	if len(trees) > 1 {
		return nil, errors.New("define and block are not allowed")
	}
	tree := trees["template"]
	if err := checkNodes(tree.Root); err != nil {
		return nil, err
	}
	return template.New("template").AddParseTree("template", tree)
}

func output(parsed *template.Template, data any, limit int) (string, error) {
	out := &limited{left: limit}
	if err := parsed.Execute(out, data); err != nil && !errors.Is(err, errFull) {
		return "", err
	}
	return strings.ToValidUTF8(out.String(), ""), nil
}

// checkNodes refuses loops and calls of templates.
func checkNodes(list *parse.ListNode) error {
	if list == nil {
		return nil
	}
	for _, node := range list.Nodes {
		var branch parse.BranchNode
		switch node := node.(type) {
		case *parse.RangeNode:
			return errors.New("range is not allowed")
		case *parse.TemplateNode:
			return errors.New("template is not allowed")
		case *parse.IfNode:
			branch = node.BranchNode
		case *parse.WithNode:
			branch = node.BranchNode
		}
		if err := errors.Join(checkNodes(branch.List), checkNodes(branch.ElseList)); err != nil {
			return err
		}
	}
	return nil
}

var errFull = errors.New("the text is long enough")

// limited keeps the first bytes that are written to it.
type limited struct {
	strings.Builder
	left int
}

func (l *limited) Write(text []byte) (int, error) {
	kept, err := len(text), error(nil)
	if kept > l.left {
		kept, err = l.left, errFull
	}
	l.left -= kept
	_, _ = l.Builder.Write(text[:kept])
	return kept, err
}

// Instant is a point in time in a template. It prints as in RFC 3339, in UTC unless In says otherwise.
type Instant struct{ at time.Time }

// NewInstant returns the instant of a time.
func NewInstant(at time.Time) Instant { return Instant{at.UTC()} }

func (i Instant) String() string { return i.at.Format(time.RFC3339) }

// In returns the same instant in a time zone with an IANA name.
func (i Instant) In(zone string) (Instant, error) {
	location, err := time.LoadLocation(zone)
	if err != nil {
		return Instant{}, err
	}
	return Instant{i.at.In(location)}, nil
}

// Format returns the instant in a layout of Go's package time.
func (i Instant) Format(layout string) (string, error) {
	const maxLayout = 100
	if len(layout) > maxLayout {
		return "", fmt.Errorf("a layout of a time has at most %d characters", maxLayout)
	}
	return i.at.Format(layout), nil
}
