package sweeper

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	sweeperactivities "drydock.dev/drydock/activities/sweeper"
	"drydock.dev/drydock/workflows/kit"
)

// maxAnswers limits the answers in the input of an activity. The oldest are dropped, and looked up again if necessary.
const maxAnswers = 300

const (
	// lookUpsAtOnce follow each other without a pause. lookUpsApart separates those that do not follow each other.
	lookUpsAtOnce      = 10
	lookUpsApart       = 10 * time.Second
	longestLookUpPause = 30 * time.Second
)

// lookUpPause is the pause before a look-up that follows that many others.
func lookUpPause(others int) time.Duration {
	if others < lookUpsAtOnce {
		return 0
	}
	return min(time.Second<<min(others-lookUpsAtOnce, 10), longestLookUpPause)
}

// lookUp looks up owners for a worker of the cluster that has no access to Temporal. Look-ups that follow each other become rare: there may be thousands of
// forged marks. Those of nodes and lock requests come first.
func (s *sweeper) lookUp(ctx workflow.Context, owners []string) error {
	pause := lookUpPause(s.lookUps)
	if workflow.Now(ctx).Sub(s.lookedUp) > pause+lookUpsApart {
		pause, s.lookUps = 0, 0
	}
	s.lookUps++
	if pause > 0 {
		if err := kit.AwaitFor(ctx, pause, "before more workflows of marks are looked up", func() bool { return s.woken }); err != nil {
			return err
		}
	}
	if s.woken {
		s.answers, s.woken, s.lookUps = nil, false, 0
	}
	s.lookedUp = workflow.Now(ctx)
	var answers []sweeperactivities.OwnerAnswer
	in := sweeperactivities.LookUpOwnersInput{Cluster: s.in.Cluster, Owners: owners}
	hub := kit.HubRetrier(s.record.waiting)
	if err := hub.Run(ctx, "look up the workflows of marks in "+s.in.Cluster, s.sweeper.LookUpOwners, in, &answers); err != nil {
		return err
	}
	s.answers = slices.DeleteFunc(s.answers, func(known sweeperactivities.OwnerAnswer) bool { return slices.Contains(owners, known.Owner) })
	s.answers = append(s.answers, answers...)
	s.answers = s.answers[max(0, len(s.answers)-maxAnswers):]
	return nil
}
