package manifest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// durations are the fields with a duration as text.
var durations = []string{"duration", "cutoff", "leads"}

// minutes are the fields with a number of minutes. Numbers of seconds have names that end with Seconds.
var minutes = []string{"spec.remediationStrategy.timeout", "spec.remediationStrategy.clusterTimeout", "spec.approvals.expiry"}

// advise adds to each value of another type than its field what to write instead.
func advise(problems []Problem, object map[string]any) []Problem {
	for i := range problems {
		if value, found := valueAt(object, problems[i].Field); found {
			if advice := adviceFor(problems[i], value); advice != "" {
				problems[i].Message += ": " + advice
			}
		}
	}
	return problems
}

// adviceFor is what to write instead of a value; empty if that is not known.
func adviceFor(problem Problem, value any) string {
	text, isText := value.(string)
	switch {
	case strings.HasPrefix(problem.Message, "must be of type string,") && isScalar(value):
		if number := fmt.Sprint(value); slices.Contains(durations, lastName(problem.Field)) && isNumber(value) {
			return fmt.Sprintf("it has no unit: write %ss for seconds, %[1]sm for minutes or %[1]sh for hours", number)
		}
		return "write it in quotes"
	case strings.HasPrefix(problem.Message, "must be of type integer") && isText:
		return numberFor(problem.Field, text)
	case strings.HasPrefix(problem.Message, "must be of type boolean,") && isText:
		if _, err := strconv.ParseBool(text); err == nil {
			return "write it without quotes"
		}
		return "write true or false"
	case strings.HasPrefix(problem.Message, "must be of type array,") && (isText || isScalar(value)):
		return "write a list, in brackets or with one item a line after a dash"
	}
	return ""
}

// numberFor is the number that a text in quotes, or a duration, stands for.
func numberFor(path, text string) string {
	if _, err := strconv.Atoi(text); err == nil {
		return "write " + text + " without quotes"
	}
	elapsed, err := time.ParseDuration(text)
	switch {
	case err != nil:
	case strings.HasSuffix(path, "Seconds") && elapsed%time.Second == 0:
		return fmt.Sprintf("write %d, in seconds", elapsed/time.Second)
	case slices.Contains(minutes, path) && elapsed%time.Minute == 0:
		return fmt.Sprintf("write %d, in minutes", elapsed/time.Minute)
	}
	return ""
}

func isNumber(value any) bool {
	switch value.(type) {
	case int64, float64:
		return true
	}
	return false
}

func isScalar(value any) bool {
	_, isBool := value.(bool)
	return isBool || isNumber(value)
}

// lastName is the name of a field, or of the list that has it.
func lastName(path string) string {
	name := path[strings.LastIndex(path, ".")+1:]
	list, _, _ := strings.Cut(name, "[")
	return list
}

// steps match the names and the positions in the path of a field.
var steps = regexp.MustCompile(`[^.\[\]]+`)

// valueAt returns the value at the path of a field, such as spec.notify[0].leads.
func valueAt(object any, path string) (any, bool) {
	for _, step := range steps.FindAllString(path, -1) {
		switch inside := object.(type) {
		case map[string]any:
			var found bool
			if object, found = inside[step]; !found {
				return nil, false
			}
		case []any:
			index, err := strconv.Atoi(step)
			if err != nil || index < 0 || index >= len(inside) {
				return nil, false
			}
			object = inside[index]
		default:
			return nil, false
		}
	}
	return object, true
}
