package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/edits"
)

// EditRequest changes the spec of a rollout.
type EditRequest = edits.Request[ranv1.ClusterGroupUpgradeSpec]

// timeoutField is the path of the timeout of a rollout.
const timeoutField = "spec.remediationStrategy.timeout"

// editable are the fields that an edit may change in an enabled rollout.
var editable = []string{"spec.batchTimeoutAction", timeoutField}

// CheckEdit returns the paths of the fields that an edit changes. In an enabled rollout only timeout and batchTimeoutAction may change, and a new
// timeout must be longer than the used time.
func CheckEdit(before, after ranv1.ClusterGroupUpgradeSpec, enabled bool, used time.Duration) ([]string, error) {
	if enabled {
		after.Enable = before.Enable // it is enabled already
	}
	changed := ChangedFields(before, after)
	if !enabled {
		return changed, nil
	}
	var fixed []string
	for _, field := range changed {
		if !slices.Contains(editable, field) {
			fixed = append(fixed, field)
		}
	}
	switch {
	case len(fixed) > 0:
		return nil, fmt.Errorf("%s: cannot be changed once the rollout is enabled (only %s can): cancel the rollout and start it again",
			strings.Join(fixed, ", "), strings.Join(editable, " and "))
	case slices.Contains(changed, timeoutField) && Timeout(&after) <= used:
		return nil, fmt.Errorf("%s: %v have been used already: cancel the rollout to end it", timeoutField, used.Round(time.Second))
	}
	return changed, nil
}

// Editable returns the part of an edit that takes effect, and the paths of the fields that have none because the rollout is enabled.
func Editable(before, after ranv1.ClusterGroupUpgradeSpec, enabled bool) (spec ranv1.ClusterGroupUpgradeSpec, ignored []string) {
	if !enabled {
		return after, nil
	}
	for _, field := range ChangedFields(before, after) {
		if !slices.Contains(editable, field) && field != "spec.enable" {
			ignored = append(ignored, field)
		}
	}
	before.BatchTimeoutAction, before.RemediationStrategy.Timeout = after.BatchTimeoutAction, after.RemediationStrategy.Timeout
	return before, ignored
}

// EditPreview is what an edit of a rollout would do.
type EditPreview = edits.Preview[ranv1.ClusterGroupUpgradeSpec]

// PreviewEdit returns what an edit would do. follows: the rollout follows its object, so fields that cannot change are ignored instead of refused.
func PreviewEdit(before, after ranv1.ClusterGroupUpgradeSpec, follows, enabled bool, used time.Duration) EditPreview {
	preview := EditPreview{Spec: before}
	if follows {
		after, preview.Ignored = Editable(before, after, enabled)
	}
	changed, err := CheckEdit(before, after, enabled, used)
	if err != nil {
		preview.Changed, preview.Refused = ChangedFields(before, after), err.Error()
		return preview
	}
	preview.Changed, preview.Replanned = changed, !enabled && len(changed) > 0
	if enabled && slices.Contains(changed, timeoutField) {
		preview.Effects = append(preview.Effects, fmt.Sprintf("the rollout times out after %v instead of %v, of which %v are used; the batch in progress gets its share of the rest",
			Timeout(&after), Timeout(&before), used.Round(time.Second)))
	}
	if !isOn(before.Enable) && isOn(after.Enable) {
		preview.Effects = append(preview.Effects, "the rollout is enabled: it starts with a valid plan")
	}
	return preview
}

// isOn reports whether a rollout with this spec.enable starts.
func isOn(enable *bool) bool { return enable == nil || *enable }

// ChangedFields returns the paths of the fields that differ. The fields of the strategy are compared one by one.
func ChangedFields(before, after ranv1.ClusterGroupUpgradeSpec) []string {
	strategy := edits.ChangedFields(before.RemediationStrategy, after.RemediationStrategy, "spec.remediationStrategy.")
	before.RemediationStrategy = after.RemediationStrategy
	changed := append(strategy, edits.ChangedFields(before, after, "spec.")...)
	slices.Sort(changed)
	return changed
}

// Timeout is the timeout of the whole rollout, by default 240 minutes.
func Timeout(spec *ranv1.ClusterGroupUpgradeSpec) time.Duration {
	if spec.RemediationStrategy.Timeout == 0 {
		return 240 * time.Minute
	}
	return time.Duration(spec.RemediationStrategy.Timeout) * time.Minute
}
