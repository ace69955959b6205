package policies

import (
	"fmt"
	"strconv"
	"time"
)

// AnnotationSoak on a policy is the number of seconds for which a cluster must stay Compliant with it before the next policy starts.
const AnnotationSoak = "ran.openshift.io/soak-seconds"

// Soak reads AnnotationSoak; 0 without it.
func Soak(annotations map[string]string) (time.Duration, error) {
	text, set := annotations[AnnotationSoak]
	if !set {
		return 0, nil
	}
	seconds, err := strconv.ParseInt(text, 10, 32)
	if err != nil || seconds < 0 {
		return 0, fmt.Errorf("annotation %s is %q: it must be a whole number of seconds, 0 or more", AnnotationSoak, text)
	}
	return time.Duration(seconds) * time.Second, nil
}
