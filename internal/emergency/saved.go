package emergency

import (
	"fmt"
	"strings"
)

// maxNumber is more than any sequence of changes reaches, and far from an overflow.
const maxNumber = 1 << 53

// CheckSaved returns why a state cannot be one that an emergency stop saved, or nil.
func (s State) CheckSaved() error {
	var problems []error
	if s.Number < 1 || s.Number > maxNumber {
		problems = append(problems, fmt.Errorf("number: %d is not between 1 and %d", s.Number, int64(maxNumber)))
	}
	if len(s.Holds) > maxHolds {
		problems = append(problems, fmt.Errorf("holds: there are %d, more than %d", len(s.Holds), maxHolds))
	}
	if s.Closes != nil {
		problems = append(problems, fmt.Errorf("closes: an emergency stop has none"))
	}
	scopes := map[string]bool{}
	for i, hold := range s.Holds[:min(len(s.Holds), maxHolds)] {
		switch scope := string(hold.Scope); {
		case scope == "" || strings.TrimSpace(scope) != scope || len(scope) > 2*maxText:
			problems = append(problems, fmt.Errorf("holds[%d].scope: %.100q is not one", i, scope))
		case scopes[scope]:
			problems = append(problems, fmt.Errorf("holds[%d].scope: %s is held twice", i, scope))
		case len(hold.Reason) > maxText || len(hold.By) > maxText:
			problems = append(problems, fmt.Errorf("holds[%d]: its text has more than %d bytes", i, maxText))
		default:
			scopes[scope] = true
		}
	}
	return joined(problems)
}
