package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Parse reads the objects in a text: YAML documents, JSON values one after the other, and lists, which are flattened. It skips empty documents.
// Errors: an Invalid that names the file and the document.
func Parse(file string, text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	var invalid Invalid
	for i, document := range split(text) {
		where := Problem{File: file, Object: fmt.Sprintf("document %d", i+1)}
		values, err := values(document)
		if err != nil {
			where.Message = err.Error()
			invalid = append(invalid, where)
			continue
		}
		for _, value := range values {
			found, problems := flatten(value, where)
			objects = append(objects, found...)
			invalid = append(invalid, problems...)
		}
	}
	return objects, invalid.orNil()
}

// split cuts a text at the lines that separate YAML documents: "---" or "..." at the start of a line, followed by white space. Text after "---" on
// its line belongs to the new document.
func split(text []byte) [][]byte {
	var documents [][]byte
	var document []byte
	for line := range bytes.Lines(text) {
		rest, separates := separator(line)
		if separates {
			documents = append(documents, document)
			document = nil
			line = rest
		}
		document = append(document, line...)
	}
	documents = append(documents, document)
	if len(bytes.TrimSpace(documents[0])) == 0 {
		return documents[1:]
	}
	return documents
}

func separator(line []byte) (rest []byte, separates bool) {
	for _, mark := range []string{"---", "..."} {
		rest, found := bytes.CutPrefix(line, []byte(mark))
		if found && (len(rest) == 0 || strings.ContainsRune(" \t\r\n", rune(rest[0]))) {
			return rest, true
		}
	}
	return nil, false
}

// values reads a document: one YAML value, or any number of JSON values.
func values(document []byte) ([]any, error) {
	if trimmed := bytes.TrimSpace(document); len(trimmed) > 0 && trimmed[0] == '{' {
		if raw, err := jsonValues(trimmed); err == nil {
			return strictValues(raw)
		}
	}
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, cmp.Or(tabIndent(document), duplicateKey(err), err)
	}
	return strictValues([]json.RawMessage{text})
}

// tabIndent is the error of the first line that a tab indents, or nil. The parser's own error does not mention the tab.
func tabIndent(document []byte) error {
	number := 0
	for line := range bytes.Lines(document) {
		number++
		text := bytes.TrimLeft(line, " \t")
		if indent := line[:len(line)-len(text)]; bytes.ContainsRune(indent, '\t') && len(bytes.TrimSpace(text)) > 0 {
			return fmt.Errorf("line %d: a tab indents %q: indent YAML with spaces", number, bytes.TrimSpace(text))
		}
	}
	return nil
}

var setTwice = regexp.MustCompile(`line \d+: key ".*" already set in map`)

// duplicateKey says which keys appear twice, or returns nil.
func duplicateKey(err error) error {
	keys := setTwice.FindAllString(err.Error(), -1)
	if len(keys) == 0 {
		return nil
	}
	return errors.New(strings.ReplaceAll(strings.Join(keys, "; "), "already set in map", "appears twice: keep one"))
}

func jsonValues(text []byte) ([]json.RawMessage, error) {
	var values []json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var value json.RawMessage
		switch err := decoder.Decode(&value); {
		case errors.Is(err, io.EOF):
			return values, nil
		case err != nil:
			return nil, err
		}
		values = append(values, value)
	}
}

// strictValues reads values, keeps integers as integers, and refuses duplicate keys.
func strictValues(raw []json.RawMessage) ([]any, error) {
	var values []any
	for _, text := range raw {
		var value any
		duplicates, err := kjson.UnmarshalStrict(text, &value)
		if err = errors.Join(append(duplicates, err)...); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}

// flatten returns the object, or the objects of a list.
func flatten(value any, where Problem) ([]*unstructured.Unstructured, Invalid) {
	if value == nil {
		return nil, nil
	}
	object := &unstructured.Unstructured{}
	var isObject bool
	if object.Object, isObject = value.(map[string]any); !isObject {
		where.Message = "is not a Kubernetes object"
		return nil, Invalid{where}
	}
	for _, key := range []string{"apiVersion", "kind"} {
		if text, ok := object.Object[key].(string); !ok || text == "" {
			where.Field, where.Message = key, "must be set: this is not a Kubernetes object"
			return nil, Invalid{where}
		}
	}
	items, isList := object.Object["items"].([]any)
	if !isList || !strings.HasSuffix(object.GetKind(), "List") {
		return []*unstructured.Unstructured{object}, nil
	}
	return flattenItems(object, items, where)
}

// flattenItems returns the objects of a list. Those of a typed list (NodeList) need not repeat their kind.
func flattenItems(list *unstructured.Unstructured, items []any, where Problem) ([]*unstructured.Unstructured, Invalid) {
	var objects []*unstructured.Unstructured
	var invalid Invalid
	itemKind := strings.TrimSuffix(list.GetKind(), "List")
	for i, item := range items {
		if fields, ok := item.(map[string]any); ok && itemKind != "" && fields["kind"] == nil && fields["apiVersion"] == nil {
			fields["kind"], fields["apiVersion"] = itemKind, list.GetAPIVersion()
		}
		itemWhere := where
		itemWhere.Object = fmt.Sprintf("%s, items[%d]", where.Object, i)
		found, problems := flatten(item, itemWhere)
		objects = append(objects, found...)
		invalid = append(invalid, problems...)
	}
	return objects, invalid
}
