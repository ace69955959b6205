// Package edits holds what the edits of the specs of running workflows have in common.
package edits

import (
	"reflect"
	"slices"
	"strings"
)

// Request changes the spec of a running workflow.
type Request[Spec any] struct {
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason,omitempty"`
	Spec   Spec   `json:"spec"`
}

// Answer is the result of an edit.
type Answer struct {
	// Changed are the paths of the changed fields.
	Changed []string `json:"changed"`
}

// Preview is what an edit of a running workflow would do.
type Preview[Spec any] struct {
	// Spec is the current one.
	Spec Spec `json:"spec"`
	// Changed are the paths of the fields that would change.
	Changed []string `json:"changed,omitempty"`
	// Refused is why the edit would be refused; empty: it would not.
	Refused string `json:"refused,omitempty"`
	// Ignored are the paths of fields whose change would have no effect.
	Ignored []string `json:"ignored,omitempty"`
	// Replanned: the work would be planned again.
	Replanned bool `json:"replanned,omitempty"`
	// Effects are what the edit means for work in progress.
	Effects []string `json:"effects,omitempty"`
}

// ChangedFields returns the sorted paths of the fields that differ between two specs; prefix begins each. An empty list equals an absent one.
func ChangedFields[Spec any](before, after Spec, prefix string) []string {
	//workflowcheck:ignore fields are read in their order, and values are only compared
	changed := differing(reflect.ValueOf(before), reflect.ValueOf(after), prefix)
	slices.Sort(changed)
	return changed
}

func differing(before, after reflect.Value, prefix string) []string {
	var names []string
	for i := range before.NumField() {
		a, b := before.Field(i), after.Field(i)
		if before.Type().Field(i).Anonymous {
			names = append(names, differing(a, b, prefix)...)
			continue
		}
		empty := (a.Kind() == reflect.Slice || a.Kind() == reflect.Map) && a.Len() == 0 && b.Len() == 0
		if !empty && !reflect.DeepEqual(a.Interface(), b.Interface()) {
			name, _, _ := strings.Cut(before.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, prefix+name)
		}
	}
	return names
}
