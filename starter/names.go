package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

const defaultNamespace = "default"

// rollout parses the name of a rollout: NAME, NAMESPACE/NAME, or its workflow id.
func (c *cli) rollout(name string) (subject, error) {
	parts := strings.Split(name, "/")
	switch {
	case len(parts) == 1:
	case len(parts) == 2:
		if err := c.inNamespace(parts[0]); err != nil {
			return subject{}, err
		}
	case len(parts) == 3 && parts[0] == "cgu":
		if err := c.inNamespace(parts[1]); err != nil {
			return subject{}, err
		}
	default:
		return subject{}, usagef("%q is not the name of a rollout: give NAME, NAMESPACE/NAME or cgu/NAMESPACE/NAME", name)
	}
	return rolloutSubject(c.objectNamespace(), parts[len(parts)-1]), nil
}

func rolloutSubject(namespace, name string) subject {
	full := namespace + "/" + name
	return subject{
		noun: "rollout", name: full, workflowID: temporal.ClusterGroupUpgradeID(namespace, name),
		show: "drydock upgrade status " + full, list: "drydock upgrade list",
	}
}

// inNamespace sets the namespace given by an operand or an object, which must not contradict -n.
func (c *cli) inNamespace(namespace string) error {
	if c.namespace != "" && namespace != c.namespace {
		return usagef("namespace %q contradicts -n %s", namespace, c.namespace)
	}
	c.namespace = namespace
	return nil
}

// checkNames validates -n and --cluster. With an invalid name, a workflow id could be that of another workflow.
func (c *cli) checkNames() error {
	if problems := validation.IsDNS1123Label(c.namespace); c.namespace != "" && len(problems) > 0 {
		return usagef("-n %q is not a valid namespace: %s", c.namespace, problems[0])
	}
	if err := kube.ValidateName(c.cluster); c.cluster != "" && err != nil {
		return usagef("--cluster %q is not a valid cluster name: %w", c.cluster, err)
	}
	return nil
}

func (c *cli) objectNamespace() string {
	return cmp.Or(c.namespace, c.contextNamespace, defaultNamespace)
}

// completeRollouts completes the names of running rollouts, or of all.
func (c *cli) completeRollouts(running bool) cobra.CompletionFunc {
	return c.completeNamed(temporal.ClusterGroupUpgrade, running)
}
