package sweeper

import (
	"context"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/internal/temporal"
)

// right is whether this worker may create Jobs in a namespace, and when the API server told it.
type right struct {
	granted bool
	at      time.Time
}

// withoutForeignJobs returns the marks without those of closed maintenances on Jobs where this worker may not create Jobs, and how many these are. Who can create
// Jobs there wrote such a mark. Drydock cannot delete that Job, and the node of the maintenance would wait for it.
func (l *search) withoutForeignJobs(ctx context.Context, marks []Mark, states map[string]temporal.Chain) (kept []Mark, foreign int) {
	kept = slices.DeleteFunc(slices.Clone(marks), func(m Mark) bool {
		return m.Kind == MarkJob && states[m.Owner].State == temporal.ChainClosed && !l.mayCreateJobs(ctx, m.Namespace)
	})
	return kept, len(marks) - len(kept)
}

// mayCreateJobs asks the API server. Without a clear answer it returns true: a node is not returned to service while a Job may work on it.
func (l *search) mayCreateJobs(ctx context.Context, namespace string) bool {
	if known, ok := l.rights[namespace]; ok && time.Since(known.at) < askOpenAfter {
		return known.granted
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Group: batchv1.GroupName, Resource: "jobs"},
	}}
	review, err := l.cluster.Clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil || review.Status.EvaluationError != "" {
		return true
	}
	if l.rights == nil {
		l.rights = map[string]right{}
	}
	l.rights[namespace] = right{review.Status.Allowed, time.Now()}
	return review.Status.Allowed
}
