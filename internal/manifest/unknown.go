package manifest

import (
	"maps"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// unknownFields removes the fields that the schema does not have, and suggests the closest known one.
func (k *kind) unknownFields(object map[string]any) []Problem {
	var problems []Problem
	for _, path := range k.prune(object) {
		message := "unknown field"
		if closest := k.closest(path); closest != "" {
			message += "; did you mean " + closest + "?"
		}
		problems = append(problems, Problem{Field: path, Message: message})
	}
	return problems
}

// closest returns the known field closest to the misspelled one at path; empty if none is close.
func (k *kind) closest(path string) string {
	steps := strings.Split(path, ".")
	parent := k.structural
	for _, step := range steps[:len(steps)-1] {
		name, _, isItem := strings.Cut(step, "[")
		child, known := parent.Properties[name]
		if !known {
			return ""
		}
		parent = &child
		if isItem && parent.Items != nil {
			parent = parent.Items
		}
	}
	return nearest(steps[len(steps)-1], parent)
}

func nearest(written string, parent *structuralschema.Structural) string {
	const far = 3
	closest, distance := "", far
	for _, name := range slices.Sorted(maps.Keys(parent.Properties)) {
		d := edits(strings.ToLower(written), strings.ToLower(name))
		if len(written) > far && (strings.HasPrefix(name, written) || strings.HasPrefix(written, name)) {
			d = min(d, far-1)
		}
		if d < distance && d < len(name) {
			closest, distance = name, d
		}
	}
	return closest
}

// edits returns how many letters must be added, removed or replaced to turn one word into another (Levenshtein distance).
func edits(from, to string) int {
	previous := make([]int, len(to)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := range len(from) {
		current := make([]int, len(to)+1)
		current[0] = i + 1
		for j := range len(to) {
			replaced := previous[j]
			if from[i] != to[j] {
				replaced++
			}
			current[j+1] = min(replaced, previous[j+1]+1, current[j]+1)
		}
		previous = current
	}
	return previous[len(to)]
}
