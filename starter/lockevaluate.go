package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/health"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/snapshot"
)

func newLockEvaluate(c *cli) *cobra.Command {
	var file, controllerName string
	var flags decisionFlags
	cmd := &cobra.Command{
		Use:   "evaluate",
		Short: "Show what the locks of an application should be, and why",
		Long: `Show what the locks of an application should be, and why. The command changes nothing. It decides from the objects in the
cluster (--context) or in a file (--snapshot), with the same function as the lock controller.

The WorkloadLockPolicy of the application is among the objects or in the file given with -f.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			reader, err := c.reader(flags)
			if err != nil {
				return err
			}
			policy, err := c.lockPolicy(ctx, reader, file, controllerName)
			if err != nil {
				return err
			}
			return c.evaluateLocks(ctx, reader, policy, flags)
		}),
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with the WorkloadLockPolicy, if it is not among the objects; - is standard input")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	cmd.Flags().StringVar(&controllerName, "controller", "", "controllerName of the application, if there are several")
	c.addDecisionFlags(cmd, &flags, "the cluster")
	c.addOutputFlag(cmd)
	return cmd
}

// lockPolicy returns the policy in the file or among the objects, with defaults set.
func (c *cli) lockPolicy(ctx context.Context, reader client.Reader, file, controllerName string) (drydockv1.WorkloadLockPolicySpec, error) {
	found := drydockv1.WorkloadLockPolicyList{}
	if file != "" {
		policies, err := manifest.Load[*drydockv1.WorkloadLockPolicy](file, c.In)
		if err != nil {
			return drydockv1.WorkloadLockPolicySpec{}, inputError(err)
		}
		for _, policy := range policies {
			found.Items = append(found.Items, *policy)
		}
	} else if err := reader.List(ctx, &found); err != nil && !meta.IsNoMatchError(err) {
		return drydockv1.WorkloadLockPolicySpec{}, fmt.Errorf("list WorkloadLockPolicies: %w", err)
	}
	policy, err := onePolicy(found.Items, controllerName)
	if err != nil {
		return drydockv1.WorkloadLockPolicySpec{}, err
	}
	if err := manifest.Complete(policy); err != nil {
		return drydockv1.WorkloadLockPolicySpec{}, inputError(err)
	}
	return policy.Spec, nil
}

// onePolicy returns the policy of an application, or the only one if none is named.
func onePolicy(found []drydockv1.WorkloadLockPolicy, controllerName string) (*drydockv1.WorkloadLockPolicy, error) {
	var meant *drydockv1.WorkloadLockPolicy
	var names []string
	for i := range found {
		if name := found[i].Spec.ControllerName; controllerName == "" || name == controllerName {
			meant, names = &found[i], append(names, name)
		}
	}
	slices.Sort(names)
	switch {
	case len(names) == 1:
		return meant, nil
	case len(names) > 1 && controllerName == "":
		return nil, usagef("several WorkloadLockPolicies found, for %s: select one with --controller", joined(names))
	case len(names) > 1:
		return nil, inputError(fmt.Errorf("%d WorkloadLockPolicies found for %s: delete all but one", len(names), controllerName))
	case controllerName != "":
		return nil, usagef("no WorkloadLockPolicy found for %s: give its file with -f", controllerName)
	}
	return nil, usagef("no WorkloadLockPolicy found: give its file with -f")
}

func (c *cli) evaluateLocks(ctx context.Context, reader client.Reader, policy drydockv1.WorkloadLockPolicySpec, flags decisionFlags) error {
	now, err := flags.now()
	if err != nil {
		return err
	}
	found, err := snapshot.WorkloadLocks(ctx, reader, policy.Namespace)
	if err != nil {
		return err
	}
	if err := found.Examine(ctx, policy, evidence(ctx, reader).At(now)); errors.Is(err, health.ErrInvalid) {
		return inputError(err)
	} else if err != nil {
		return err
	}
	decision, err := locks.Decide(policy, found, now)
	if errors.Is(err, locks.ErrInvalid) {
		return inputError(fmt.Errorf("WorkloadLockPolicy of %s: %w", policy.ControllerName, err))
	} else if err != nil {
		return err
	}
	var changing []string
	for _, change := range decision.Changes() {
		changing = append(changing, lockResource(change.Kind, change.Name))
	}
	return c.print(decision, func(w *page) { renderDecision(w, policy.ControllerName, decision) }, changing...)
}

func renderDecision(w *page, controllerName string, decision locks.Decision) {
	t := w.newTable("LOCK", "STATE", "BECOMES", "REASON", "MESSAGE")
	for _, lock := range decision.Locks {
		becomes := ""
		if lock.Action == locks.Delete {
			becomes = "deleted"
		} else if lock.To != lock.From {
			becomes = string(lock.To)
		}
		t.AppendRow(table.Row{lockSubject(lock.Node), lock.From, becomes, lock.Reason, lock.Message})
	}
	fmt.Fprintln(w, t.Render())
	fmt.Fprintf(w, "%s: %s\n", controllerName, decision.Progress)
}
