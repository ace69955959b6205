package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/edits"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/preflight"
)

func newDiff(c *cli) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "diff -f FILE",
		Short: "Show what an edit of a rollout, a node maintenance, a lock controller or a window would change",
		Long: `Show what an edit of a rollout, a node maintenance, a lock controller or a window would change, and what that means for the work in progress. It changes nothing.

The file has a ClusterGroupUpgrade, a NodeMaintenance, a WorkloadLockPolicy or a MaintenanceWindow, as for "upgrade edit", "node edit",
"lock controller edit" or "window edit". The workflow compares it with its current spec, whether a person
edits it with drydock or the object in the cluster. For a rollout that is not enabled, a worker makes the new plan: the command names the clusters that leave,
join, or move to another batch, and says if precaching starts again. For a window, the command says if it opens or closes now, and which openings change.

The exit status is that of "kubectl diff": 0 no difference, 1 differences, 2 an error, also if the edit would be refused.`,
		Args: operands(),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := c.serverVerb(func(ctx context.Context, s *server, _ []string) error { return c.diff(ctx, s, file) })(cmd, args)
			if err == nil || errors.Is(err, errPrinted) || !c.parsed {
				return err
			}
			return inputError(err) // status 1 means differences
		},
	}
	addFileFlag(cmd, &file, "file with the ClusterGroupUpgrade, NodeMaintenance, WorkloadLockPolicy or MaintenanceWindow")
	c.addClusterFlag(cmd)
	c.addNamespaceFlag(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

// editDiff is the output of -o json: what an edit would change.
type editDiff struct {
	Metadata workflowRef `json:"metadata"`
	// Starts: no work is running, so it would be started.
	Starts bool `json:"starts,omitempty"`
	// Changed are the paths of the fields that would change.
	Changed []string `json:"changed"`
	// Diff is the difference between the specs in the unified format.
	Diff string `json:"diff,omitempty"`
	// Refused is why the edit would be refused.
	Refused string `json:"refused,omitempty"`
	// Ignored are the paths of fields whose change would have no effect.
	Ignored []string `json:"ignored,omitempty"`
	// Effects are what the edit means for the work in progress.
	Effects []string `json:"effects,omitempty"`
	// Plan is the difference between the plans of a rollout that would be planned again.
	Plan *rollout.PlanChange `json:"plan,omitempty"`
}

func (c *cli) diff(ctx context.Context, s *server, file string) error {
	objects, err := manifest.Load[client.Object](file, c.In)
	if err != nil {
		return inputError(err)
	}
	if len(objects) > 1 {
		return inputError(fmt.Errorf("%s holds %d objects; give one", file, len(objects)))
	}
	object := objects[0]
	if object.GetNamespace() != "" {
		if err := c.inNamespace(object.GetNamespace()); err != nil {
			return err
		}
	}
	object.SetNamespace(c.objectNamespace())
	var target subject
	var found editDiff
	switch object := object.(type) {
	case *ranv1.ClusterGroupUpgrade:
		target = rolloutSubject(object.Namespace, object.Name)
		found, err = diffRollout(ctx, s, target, object)
	case *maintenancev1.NodeMaintenance:
		if err := c.requireCluster(); err != nil {
			return err
		}
		target = nodeMaintenance(c.cluster, object.Namespace, object.Name)
		found, err = diffSpecs(ctx, s, target, object.Spec, editOf(object.Spec), nil)
	case *drydockv1.WorkloadLockPolicy:
		if err := c.requireCluster(); err != nil {
			return err
		}
		target = lockController(c.cluster, object.Spec.ControllerName)
		found, err = diffSpecs(ctx, s, target, object.Spec, editOf(object.Spec), nil)
	case *drydockv1.MaintenanceWindow:
		target = windowSubject(object.Namespace, object.Name)
		found, err = diffWindow(ctx, s, target, object)
	default:
		return inputError(fmt.Errorf("%s has no ClusterGroupUpgrade, NodeMaintenance, WorkloadLockPolicy or MaintenanceWindow", file))
	}
	if err != nil {
		return err
	}
	if err := c.print(found, func(w *page) { found.render(w, target) }, target.workflowID); err != nil {
		return err
	}
	switch {
	case found.Refused != "":
		return fmt.Errorf("edit %s: %s", target, found.Refused)
	case found.Starts || len(found.Changed)+len(found.Ignored)+len(found.Effects) > 0:
		return errPrinted
	}
	return nil
}

// diffRollout compares a rollout with its file. If it would be planned again, it also compares the plans.
func diffRollout(ctx context.Context, s *server, target subject, object *ranv1.ClusterGroupUpgrade) (editDiff, error) {
	return diffSpecs(ctx, s, target, object.Spec, editOf(object.Spec), func(preview rollout.EditPreview, found *editDiff) error {
		if !preview.Replanned {
			return nil
		}
		execution, err := s.describe(ctx, target, "")
		if err != nil {
			return err
		}
		current, err := s.rolloutStatus(ctx, target, execution, 0)
		if err != nil {
			return err
		}
		checked, err := s.check(ctx, target, preflight.Input{Rollout: object, PlanOnly: true})
		if err != nil {
			return fmt.Errorf("plan %s with the edit: %w", target, err)
		}
		found.Plan = &rollout.PlanChange{Problems: checked.Problems}
		if checked.Plan != nil {
			found.Plan = new(rollout.ComparePlans(&current.Status, &preview.Spec, &object.Spec, *checked.Plan))
		}
		return nil
	})
}

// diffWindow compares a window with its file.
func diffWindow(ctx context.Context, s *server, target subject, object *drydockv1.MaintenanceWindow) (editDiff, error) {
	request := windows.PreviewRequest{DefineRequest: windows.DefineRequest{Request: windows.Request{Actor: actor()}, Object: *object}, Now: time.Now()}
	window, err := windows.New(object)
	if err == nil {
		request.Schedule, err = window.Schedule(request.Now)
	}
	if err != nil {
		return editDiff{}, inputError(err)
	}
	return diffSpecs(ctx, s, target, object.Spec, request, nil)
}

// editOf is the request of an edit.
func editOf[Spec any](spec Spec) edits.Request[Spec] {
	return edits.Request[Spec]{Actor: actor(), Spec: spec}
}

// diffSpecs asks a running workflow what the request of an edit would do. more adds to that; it may be nil.
func diffSpecs[Spec any](ctx context.Context, s *server, target subject, spec Spec, request any, more func(edits.Preview[Spec], *editDiff) error) (editDiff, error) {
	found := editDiff{Metadata: observe.RefOf(target.workflowID, ""), Changed: []string{}}
	running, err := s.isRunning(ctx, target)
	if err != nil {
		return found, err
	}
	if !running {
		found.Starts = true
		found.Diff, err = unified(nil, spec)
		return found, err
	}
	var preview edits.Preview[Spec]
	err = observe.Query(ctx, s, target.workflowID, "", temporal.QueryPreviewEdit, &preview, request)
	if err := s.explainQuery("compare the spec of", target, err); err != nil {
		return found, err
	}
	found.Refused, found.Ignored, found.Effects = preview.Refused, preview.Ignored, preview.Effects
	found.Changed = append(found.Changed, preview.Changed...)
	if len(preview.Changed)+len(preview.Ignored) > 0 {
		if found.Diff, err = unified(preview.Spec, spec); err != nil {
			return found, err
		}
	}
	if more != nil && preview.Refused == "" {
		err = more(preview, &found)
	}
	return found, err
}

// unified compares two specs as YAML; nil: there is none.
func unified(before, after any) (string, error) {
	old, err := specYAML(before)
	if err != nil {
		return "", err
	}
	edited, err := specYAML(after)
	if err != nil {
		return "", err
	}
	return difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(old), B: difflib.SplitLines(edited), FromFile: "current", ToFile: "edited", Context: 3,
	})
}

func specYAML(spec any) (string, error) {
	if spec == nil {
		return "", nil
	}
	text, err := yaml.Marshal(map[string]any{"spec": spec})
	return strings.TrimSuffix(string(text), "\n"), err
}

func (d editDiff) render(w *page, target subject) {
	if d.Starts {
		fmt.Fprintf(w, "%s is not running, so it would be started\n", target)
	}
	fmt.Fprint(w, d.Diff)
	if len(d.Ignored) > 0 {
		fmt.Fprintf(w, "no effect, because the rollout is enabled: %s\n", strings.Join(d.Ignored, ", "))
	}
	for _, effect := range d.Effects {
		fmt.Fprintln(w, effect)
	}
	if plan := d.Plan; plan != nil {
		for _, problem := range plan.Problems {
			fmt.Fprintf(w, "the rollout would wait, because its plan has an error: %s\n", problem)
		}
		for _, change := range []struct {
			what     string
			clusters []string
		}{{"leave the rollout", plan.Leave}, {"join the rollout", plan.Join}, {"move to another batch", plan.Move}} {
			if len(change.clusters) > 0 {
				fmt.Fprintf(w, "clusters that %s: %s\n", change.what, kit.JoinNames(change.clusters))
			}
		}
		if plan.Precaching != "" {
			fmt.Fprintf(w, "precaching %s\n", plan.Precaching)
		}
	}
}
