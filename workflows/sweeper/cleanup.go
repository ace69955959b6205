package sweeper

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/locks"
	nodeactivities "drydock.dev/drydock/activities/node"
	sweeperactivities "drydock.dev/drydock/activities/sweeper"
	"drydock.dev/drydock/workflows/kit"
)

// cleanUp cleans up the orphans, in parallel for different owners.
func (s *sweeper) cleanUp(ctx workflow.Context, orphans []sweeperactivities.Orphan) {
	if len(orphans) == 0 {
		return
	}
	s.record.enter(CleaningUp)
	for _, orphan := range orphans {
		s.record.found(ctx, orphan)
	}
	if workflow.NewTimerWithOptions(ctx, LateWriteLimit, workflow.TimerOptions{Summary: "until activities of closed workflows have ended"}).Get(ctx, nil) != nil {
		return
	}
	retrier := s.retrier()
	retrier.Deadline = workflow.Now(ctx).Add(cleanupTimeout)
	running := 0
	for _, of := range byOwner(orphans) {
		running++
		workflow.GoNamed(ctx, "sweep "+of[0].Owner, func(ctx workflow.Context) {
			s.cleanUpOwner(ctx, retrier, of)
			running--
		})
	}
	// A cancelled sweeper starts no more attempts, but records the result of those that run.
	waiting, stopWaiting := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(waiting, func() bool { return running == 0 })
	stopWaiting()
	s.record.reason.Set(ctx, "", "")
}

// byOwner groups orphans, which are sorted by owner.
func byOwner(orphans []sweeperactivities.Orphan) [][]sweeperactivities.Orphan {
	var groups [][]sweeperactivities.Orphan
	for i, orphan := range orphans {
		if i == 0 || orphans[i-1].Owner != orphan.Owner {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], orphan)
	}
	return groups
}

// cleanUpOwner cleans up the orphans of one owner in the order of a workflow's own cleanup. When a step fails, the later steps wait for the next
// attempt: a node is not returned to service while a Job runs on it.
func (s *sweeper) cleanUpOwner(ctx workflow.Context, retrier kit.Retrier, orphans []sweeperactivities.Orphan) {
	pause := settledPause
	for i, orphan := range orphans {
		result, err := s.undo(ctx, retrier, orphan.Mark)
		s.record.settle(ctx, orphan, result, err)
		if err != nil {
			pause = retryPause
			s.record.blocked(ctx, orphans[i+1:], orphan)
			break
		}
	}
	s.deferred = append(s.deferred, sweeperactivities.LaterOwner{Owner: orphans[0].Owner, Until: workflow.Now(ctx).Add(pause)})
}

// undo cleans up one object if it is still marked by the same owner, and describes what was done.
func (s *sweeper) undo(ctx workflow.Context, retrier kit.Retrier, mark sweeperactivities.Mark) (summary string, err error) {
	node := activitykit.NodeRef{Cluster: s.in.Cluster, Node: mark.Node, Owner: mark.Owner}
	switch mark.Kind {
	case sweeperactivities.MarkAction, sweeperactivities.MarkView:
		in := sweeperactivities.OrphanedObject{Kind: mark.Kind, Namespace: mark.Namespace, Name: mark.Name, Owner: mark.Owner}
		return "deleted", retrier.Run(ctx, "delete "+mark.String(), s.sweeper.RemoveOrphanedObject, in, nil)
	case sweeperactivities.MarkJob:
		in := jobs.OrphanedJob{Cluster: s.in.Cluster, Namespace: mark.Namespace, Name: mark.Name, Owner: mark.Owner}
		return "removed, or kept without its mark if it had failed", retrier.Run(ctx, "remove "+mark.String(), s.jobs.RemoveOrphanedJob, in, nil)
	case sweeperactivities.MarkNode:
		var result nodeactivities.ReturnNodeResult
		err := retrier.Run(ctx, "return "+mark.Node, s.nodes.ReturnNode, nodeactivities.ReturnNodeInput{NodeRef: node}, &result)
		return returnSummary(result), err
	case sweeperactivities.MarkNodeRequest:
		return "deleted", retrier.Run(ctx, "withdraw the request for "+mark.Node, s.locks.WithdrawNodeMaintenance, locks.NodeLockInput{NodeRef: node}, nil)
	case sweeperactivities.MarkClusterRequest:
		in := locks.ClusterLockInput{Cluster: s.in.Cluster, Owner: mark.Owner}
		return "deleted", retrier.Run(ctx, "withdraw the request for "+s.in.Cluster, s.locks.WithdrawClusterMaintenance, in, nil)
	}
	return "", fmt.Errorf("%s: this version of Drydock cannot clean up such an object", mark)
}

func returnSummary(result nodeactivities.ReturnNodeResult) string {
	switch {
	case result.Note != "":
		return "marks removed; " + result.Note
	case result.Uncordoned:
		return "uncordoned, marks removed"
	}
	return "marks removed"
}
