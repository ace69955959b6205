package main

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/rest"

	"drydock.dev/drydock/internal/discovery"
	"drydock.dev/drydock/internal/kube"
)

// examineClusters shows where the clusters of a clusters file come from, which objects on the hub name clusters that are not used, and which of the others
// answer.
func (c *cli) examineClusters(whole context.Context, file string, where sites) []finding {
	const check = "clusters"
	ctx, cancel := context.WithTimeout(whole, checkTimeout)
	defer cancel()
	source, err := kube.FromClustersFile(file)
	if err != nil {
		return []finding{ill(check, "correct the clusters file", err)}
	}
	findings := []finding{clustersFinding(check+" of the clusters file", source.Names())}
	if !source.Discovers() {
		return findings
	}
	if where.hub == "" {
		return append(findings, ill(check, "add --hub-context", errors.New("discovery: its objects are on the hub")))
	}
	config, err := c.kube.config(where.hub)
	if err != nil {
		return append(findings, ill(check, "name a context of the kubeconfig", err))
	}
	config = rest.CopyConfig(config)
	config.Timeout = checkTimeout
	found, err := source.FindOnHub(ctx, config)
	if err != nil {
		return append(findings, ill(check, "correct the kubeconfig", err))
	}
	for _, of := range found {
		findings = append(findings, discoveryFindings(whole, check, of)...)
	}
	return findings
}

// discoveryFindings are those of one source on the hub.
func discoveryFindings(ctx context.Context, check string, of kube.FoundOnHub) []finding {
	check += " of " + of.Source
	if of.Err != nil {
		return []finding{ill(check, "give the user of the hub's context the right to list these objects", of.Err)}
	}
	var without []string
	var used, refused []discovery.Cluster
	for _, cluster := range of.Clusters {
		switch {
		case cluster.Config != nil:
			used = append(used, cluster)
		case cluster.NoCredentials:
			without = append(without, cluster.Name)
		default:
			refused = append(refused, cluster)
		}
	}
	usable, failed := examineCredentials(ctx, check, used)
	detail := fmt.Sprintf("%s: %s", plural(len(usable), "usable cluster"), joined(usable))
	findings := append([]finding{well(check, detail)}, failed...)
	if len(without) > 0 {
		findings = append(findings, warning(check, fmt.Sprintf("no Secret %s with a token in the namespaces of %s", discovery.TokenSecret, joined(without)),
			"create ManagedServiceAccounts of that name, or run workers inside these clusters"))
	}
	for _, cluster := range refused {
		findings = append(findings, ill(check, "correct or remove the object: the workers notice it", fmt.Errorf("%s is not used: %s", cluster.From, cluster.Problem)))
	}
	return findings
}

func clustersFinding(check string, names []string) finding {
	return well(check, fmt.Sprintf("%s: %s", plural(len(names), "cluster"), joined(names)))
}
