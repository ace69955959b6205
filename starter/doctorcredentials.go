package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"drydock.dev/drydock/deploy/rbac"
	"drydock.dev/drydock/internal/discovery"
)

const (
	// triedAtOnce is how many clusters are tried at the same time. Those that do not answer take checkTimeout each.
	triedAtOnce = 50
	// askedAtOnce is how many rights of one cluster are asked for at the same time.
	askedAtOnce = 10
)

// initiatorRole is the role without which no node of a cluster can be maintained.
const initiatorRole = "drydock-initiator"

// examineCredentials tries the credentials of discovered clusters. It returns the names of those that a worker can use, and a finding for each other one.
func examineCredentials(ctx context.Context, check string, clusters []discovery.Cluster) (usable []string, failed []finding) {
	problems := make([]*finding, len(clusters))
	var group errgroup.Group
	group.SetLimit(triedAtOnce)
	for i, cluster := range clusters {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, checkTimeout)
			defer cancel()
			if fix, err := tryCredentials(ctx, cluster.Config); err != nil {
				problems[i] = new(ill(check, fix, fmt.Errorf("%s of %s: %w", cluster.Name, cluster.From, err)))
			}
			return nil
		})
	}
	_ = group.Wait()
	for i, problem := range problems {
		if problem == nil {
			usable = append(usable, clusters[i].Name)
		} else {
			failed = append(failed, *problem)
		}
	}
	return usable, failed
}

// tryCredentials returns why a worker cannot maintain nodes with the credentials, and what to do.
func tryCredentials(ctx context.Context, config *rest.Config) (fix string, err error) {
	config = rest.CopyConfig(config)
	config.Timeout, config.QPS = checkTimeout, -1
	cluster, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "correct the object", err
	}
	missing, err := missingRights(ctx, cluster)
	switch {
	case err != nil:
		return "check that the API server runs and that the credentials in the object are valid", err
	case len(missing) > 0:
		return "bind the roles of initiator.yaml to the account", fmt.Errorf("its account has not the right to %s", joined(missing))
	}
	return "", nil
}

// missingRights returns what the role of the initiator allows, and the account may not do.
func missingRights(ctx context.Context, cluster kubernetes.Interface) ([]string, error) {
	roles, err := rbac.Roles()
	if err != nil {
		return nil, err
	}
	role := roles[slices.IndexFunc(roles, func(role rbac.Role) bool { return role.Name == initiatorRole })]
	var all []authorizationv1.ResourceAttributes
	for _, rule := range role.Rules {
		for _, verb := range rule.Verbs {
			all = append(all, attributesOf(rule, verb)...)
		}
	}
	allowed := make([]bool, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(askedAtOnce)
	for i := range all {
		group.Go(func() error {
			review, err := cluster.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &all[i]},
			}, metav1.CreateOptions{})
			allowed[i] = err == nil && review.Status.Allowed
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var missing []string
	for i, asked := range all {
		if !allowed[i] {
			resource := strings.TrimSuffix(asked.Resource+"/"+asked.Subresource, "/")
			missing = append(missing, asked.Verb+" "+rbac.Resource(asked.Group, resource))
		}
	}
	return missing, nil
}

// attributesOf are the requests that a verb of a rule allows.
func attributesOf(rule rbacv1.PolicyRule, verb string) (all []authorizationv1.ResourceAttributes) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""} // any
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				resource, subresource, _ := strings.Cut(resource, "/")
				all = append(all, authorizationv1.ResourceAttributes{Group: group, Resource: resource, Subresource: subresource, Verb: verb, Name: name})
			}
		}
	}
	return all
}
