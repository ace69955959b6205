package portal

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/objects"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// declare shows or withdraws an object on the hub.
func (s *statusPortal) declare(r portal.ObjectRequest, now time.Time) portal.Answer {
	answer, added := s.portal.Declare(r, now)
	s.claims = s.claims.And(added)
	return answer
}

const (
	// publishInterval is the shortest time between two writes to objects, and publishRetry the pause after a failed one.
	publishInterval = time.Second
	publishRetry    = 10 * time.Second
	// publishedTogether limits the objects that one activity writes to.
	publishedTogether = 50
)

// publish writes the statuses of components, maintenances and incidents to the objects that declare them.
func (s *statusPortal) publish(ctx workflow.Context) {
	run := workflow.GetInfo(ctx).FirstRunID
	retrier := kit.HubRetrier(nil)
	for workflow.Await(ctx, func() bool { return len(s.portal.Unpublished(run, 1)) > 0 }) == nil {
		unpublished := s.portal.Unpublished(run, publishedTogether)
		var in []objects.PublishStatusInput
		for _, one := range unpublished {
			in = append(in, objects.PublishStatusInput{Status: one.Status, Object: temporal.Object{
				APIVersion: sreportalv1.GroupVersion.String(), Kind: one.Kind, Namespace: one.Namespace, Name: one.Name, UID: one.UID,
			}})
		}
		var results []objects.PublishedStatus
		if retrier.Run(ctx, "publish the statuses of objects", s.objects.PublishStatuses, in, &results) != nil {
			return
		}
		pause := publishInterval
		for i, result := range results {
			switch {
			case result.Error != "":
				pause = publishRetry
			case s.portal.Published(unpublished[i], result.Gone, workflow.Now(ctx)):
				s.changed = true
			}
		}
		if workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: "gather changes of statuses"}).Get(ctx, nil) != nil {
			return
		}
	}
}
