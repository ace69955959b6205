package scheduling_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
)

// schedulerOf is a SlotState with its owners: it sends their sets and records the responses.
type schedulerOf struct {
	state scheduling.SlotState
	now   time.Time
	sets  map[string]*scheduling.SlotRequests
	sent  []scheduling.SlotResponse
	// again is when the next decision is due.
	again time.Time
}

// newScheduler returns a scheduler with these nodes and a limit of parallel maintenances.
func newScheduler(parallel int, nodes ...string) *schedulerOf {
	d := &schedulerOf{now: noon, sets: map[string]*scheduling.SlotRequests{}}
	update := scheduling.NodeUpdate{Watch: noon, First: true, Last: true, Config: parallelOperations(parallel)}
	for _, name := range nodes {
		update.Nodes = append(update.Nodes, observed(name))
	}
	d.state.Update(update, noon)
	return d
}

func parallelOperations(number int) *maintenancev1.MaintenanceOperatorConfigSpec {
	return &maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(number))}
}

func observed(name string) scheduling.ObservedNode {
	return scheduling.ObservedNode{Node: scheduling.Node{Name: name}}
}

// slot returns a request with that number for a node. Higher numbers are later requests.
func slot(node string, number int64) scheduling.Slot {
	return scheduling.Slot{Name: "on-" + node, Node: node, Number: number, Since: noon.Add(time.Duration(number) * time.Second)}
}

// maintenanceOn returns the maintenance of a node whose slot has that number.
func maintenanceOn(node string) string { return "node/c/default/on-" + node }

func owner(name string) scheduling.SlotOwner {
	return scheduling.SlotOwner{WorkflowID: name, FirstRunID: "run-of-" + name}
}

func emptySet(owner scheduling.SlotOwner) *scheduling.SlotRequests {
	return &scheduling.SlotRequests{Owner: owner, Namespace: "default", Requestor: "a.example.com", Maintenances: "node/c/default/"}
}

// setOf returns the set of an owner, which the caller may change.
func (d *schedulerOf) setOf(who string) *scheduling.SlotRequests {
	if d.sets[who] == nil {
		d.sets[who] = emptySet(owner(who))
	}
	return d.sets[who]
}

// send sends the set of an owner.
func (d *schedulerOf) send(who string) []string {
	set := d.setOf(who)
	set.Version++
	d.state.Receive(*set, d.now)
	set.Releases = nil
	return d.decide()
}

func (d *schedulerOf) request(who string, slots ...scheduling.Slot) []string {
	d.setOf(who).Slots = append(d.setOf(who).Slots, slots...)
	return d.send(who)
}

func (d *schedulerOf) release(who string, releases ...scheduling.Release) []string {
	set := d.setOf(who)
	for _, release := range releases {
		set.Slots = slices.DeleteFunc(set.Slots, func(s scheduling.Slot) bool { return s.Number == release.Number })
		set.Releases = append(set.Releases, release)
	}
	return d.send(who)
}

// returnSlot returns a slot before its owner knows.
func (d *schedulerOf) returnSlot(who string, number int64) []string {
	d.state.Return(scheduling.HeldSlot{Owner: owner(who), Number: number}.Return(false), d.now)
	return d.decide()
}

func returned(number int64) scheduling.Release { return scheduling.Release{Number: number} }

func unclean(number int64) scheduling.Release {
	return scheduling.Release{Number: number, Unclean: true}
}

func leftOut(number int64) scheduling.Release {
	return scheduling.Release{Number: number, LeftOut: true}
}

// decide returns the responses as "owner: names of new grants; reason". The owners know their grants from then on.
func (d *schedulerOf) decide() []string { return d.decideIn(nil) }

func (d *schedulerOf) decideIn(standstill *drydockv1.Wait) (sent []string) {
	outcome := d.state.Decide(d.now, standstill)
	reports, next := d.state.Reports(d.now)
	d.again = scheduling.Earlier(outcome.Again, next)
	responses := slices.Concat(outcome.Responses, reports)
	for _, response := range responses {
		text := response.Owner.WorkflowID + ":"
		for i := range d.setOf(response.Owner.WorkflowID).Slots {
			slot := &d.setOf(response.Owner.WorkflowID).Slots[i]
			if slices.Contains(response.Granted, slot.Number) && !slot.Granted {
				slot.Granted = true
				text += " " + slot.Name
			}
		}
		if response.Wait != nil {
			text += "; " + response.Wait.Reason
		}
		sent = append(sent, text)
	}
	d.sent = append(d.sent, responses...)
	return sent
}

// later decides again at the due time.
func (d *schedulerOf) later() []string {
	d.now = d.again
	return d.decide()
}

func TestASlotIsGrantedOnceAndTheNextRequestGetsItWhenItIsReleased(t *testing.T) {
	d := newScheduler(1, "a", "b")
	require.Equal(t, []string{"june: on-a; NoSlot"}, d.request("june", slot("a", 1), slot("b", 2)))
	require.Empty(t, d.decide(), "no owner gets the same response twice")
	require.Equal(t, []string{"june: on-b"}, d.release("june", returned(1)))
	require.Empty(t, d.release("june", returned(2)))
	require.True(t, d.state.Empty())
}

func TestAWaitIsReportedAfterASecondAndAgainForAnotherReason(t *testing.T) {
	d := newScheduler(1, "a", "b")
	d.request("june", slot("a", 1))
	require.Empty(t, d.request("july", slot("b", 1)))
	require.Equal(t, noon.Add(time.Second), d.again)
	require.Equal(t, []string{"july:; NoSlot"}, d.later())
	require.Zero(t, d.again)
	d.now = d.now.Add(time.Hour)
	require.Empty(t, d.decide())
	require.Empty(t, d.decideIn(&drydockv1.Wait{Reason: "Held"}))
	d.now = d.again
	require.Equal(t, []string{"july:; Held"}, d.decideIn(&drydockv1.Wait{Reason: "Held"}))
}

// A wait must not name former holders for hours.
func TestOtherChangesOfAWaitAreReportedPeriodically(t *testing.T) {
	d := newScheduler(1, "a", "b", "c")
	d.request("june", slot("a", 1))
	d.request("july", slot("b", 2))
	d.request("august", slot("c", 3))
	d.later()
	d.sent = nil
	reported := d.now

	require.Equal(t, []string{"july: on-b"}, d.release("june", returned(1)))
	require.Equal(t, reported.Add(time.Minute), d.again, "the reason is the same, but another node has the slot")
	require.Equal(t, []string{"august:; NoSlot"}, d.later())
	require.Contains(t, d.sent[1].Wait.Message, "(b for a.example.com)")
	require.Zero(t, d.again)
	require.Empty(t, d.decide())

	another := scheduling.NodeUpdate{Watch: noon, Nodes: []scheduling.ObservedNode{observed("e")}}
	d.now = noon.Add(5 * time.Hour)
	d.state.Update(another, noon)
	require.Equal(t, []string{"august:; NoSlot"}, d.decide(), "the message has the new number of nodes")
	reported = d.now
	d.state.Update(scheduling.NodeUpdate{Watch: noon, Gone: []string{"e"}}, noon)
	require.Empty(t, d.decide())
	require.WithinDuration(t, reported.Add(30*time.Minute), d.again, time.Second, "a long wait is reported less often")
	d.state.Update(another, noon)
	require.Empty(t, d.decide())
	require.Zero(t, d.again, "the last report is current")
	d.now = noon.Add(1000 * time.Hour)
	d.state.Update(scheduling.NodeUpdate{Watch: noon, Gone: []string{"e"}}, noon)
	require.Len(t, d.decide(), 1)
	d.state.Update(another, noon)
	require.Empty(t, d.decide())
	require.Equal(t, d.now.Add(time.Hour), d.again)
}

// Only a stolen worker reports a watch that has yet to start. The watches of other workers would never be later.
func TestAWatchOfTheFutureDoesNotReplaceTheNodes(t *testing.T) {
	d := newScheduler(1, "a")
	lie := scheduling.NodeUpdate{Watch: noon.Add(time.Hour), First: true, Last: true, Nodes: []scheduling.ObservedNode{observed("ghost")}}
	d.state.Update(lie, noon)
	require.Equal(t, []scheduling.ObservedNode{observed("a")}, d.state.Nodes)
	next := scheduling.NodeUpdate{Watch: noon.Add(time.Minute), First: true, Last: true, Nodes: []scheduling.ObservedNode{observed("b")}}
	d.state.Update(next, noon)
	require.Equal(t, []scheduling.ObservedNode{observed("b")}, d.state.Nodes, "the clocks of Temporal's servers differ a little")
}

func TestTheWaitOfSeveralRequestsNamesAllReasons(t *testing.T) {
	d := newScheduler(1, "a", "b", "c")
	d.request("june", slot("a", 1), slot("b", 2), slot("c", 3))
	wait := d.sent[0].Wait
	require.Equal(t, "on-b is next of 2: maxParallelOperations allows 1 of 3 nodes under maintenance at once (a for a.example.com)",
		"on-"+wait.Message)
	require.Len(t, wait.Blockers, 2)
	require.Equal(t, "c", wait.Blockers[1].Name)
}

func TestANodeHeldOnlyByAMarkIsReportedWithIt(t *testing.T) {
	d := newScheduler(1, "a", "b")
	marked := observed("a")
	marked.Maintenance = "node/c/default/over"
	d.state.Update(scheduling.NodeUpdate{Watch: noon, Nodes: []scheduling.ObservedNode{marked}}, noon)
	d.request("june", slot("b", 1))
	d.later()
	require.Contains(t, d.sent[0].Wait.Message, "allows 1 of 2 nodes under maintenance at once (a with the mark of node/c/default/over)")
}

func TestALostGrantIsSentAgain(t *testing.T) {
	d := newScheduler(2, "a", "b")
	require.Equal(t, []string{"june: on-a"}, d.request("june", slot("a", 1)))
	d.setOf("june").Slots[0].Granted = false
	require.Equal(t, []string{"june: on-a"}, d.send("june"))
	require.Empty(t, d.send("june"), "the owner knows the grant")
	require.Len(t, d.state.Queue(d.now, nil), 1)
}

func TestEveryResponseHasAllGrantsAndTheVersionThatItAnswers(t *testing.T) {
	d := newScheduler(2, "a", "b", "c")
	d.request("june", slot("a", 1))
	d.request("june", slot("b", 2), slot("c", 3))
	last := d.sent[len(d.sent)-1]
	require.Equal(t, []int64{1, 2}, last.Granted)
	require.Equal(t, int64(2), last.Version)
	d.returnSlot("june", 1)
	require.Equal(t, []int64{2, 3}, d.sent[len(d.sent)-1].Granted)
}

func TestAStaleSetOfRequestsChangesNothing(t *testing.T) {
	d := newScheduler(2, "a", "b")
	d.request("june", slot("a", 1))
	late := *d.setOf("june")
	late.Slots = nil
	d.request("june", slot("b", 2))
	d.state.Receive(late, d.now)
	require.Equal(t, []string{"on-a", "on-b"}, names(d.state.Slots()))
}

func TestASchedulerWithoutStateLearnsOfSlotsFromTheirOwners(t *testing.T) {
	d := newScheduler(1, "a", "b")
	granted := slot("a", 1)
	granted.Granted = true
	require.Equal(t, []string{"june:; NoSlot"}, append(d.request("june", granted, slot("b", 2)), d.later()...))
}

func TestAReleaseAppliesOnlyToTheRequestOfItsOwnerAndNumber(t *testing.T) {
	d := newScheduler(1, "a")
	d.request("june", slot("a", 1))
	d.release("june", returned(1))
	d.request("june", slot("a", 2))
	d.returnSlot("june", 1)
	require.False(t, d.state.Empty())
	d.release("july", returned(2))
	require.False(t, d.state.Empty())
	d.release("june", returned(2))
	require.True(t, d.state.Empty())
}

func TestNothingIsGrantedBeforeAllNodesAreListed(t *testing.T) {
	d := &schedulerOf{now: noon, sets: map[string]*scheduling.SlotRequests{}}
	require.Empty(t, d.request("june", slot("a", 1)))
	require.Equal(t, []string{"june:; NodesUnknown"}, d.later())
	d.state.Update(scheduling.NodeUpdate{Watch: noon, First: true, Nodes: []scheduling.ObservedNode{observed("a")}, Config: parallelOperations(1)}, noon)
	require.Empty(t, d.decide(), "only half of the nodes are listed")
	d.state.Update(scheduling.NodeUpdate{Watch: noon, Last: true, Nodes: []scheduling.ObservedNode{observed("b")}}, noon)
	require.Equal(t, []string{"june: on-a"}, d.decide())
}

func TestUpdatesOfAnEarlierWatchAreIgnored(t *testing.T) {
	d := newScheduler(1, "a")
	down := observed("a")
	down.Unavailable = true
	d.state.Update(scheduling.NodeUpdate{Watch: noon.Add(-time.Second), Nodes: []scheduling.ObservedNode{down}}, noon)
	require.False(t, d.state.Nodes[0].Unavailable)
	d.state.Update(scheduling.NodeUpdate{Watch: noon.Add(time.Second), Nodes: []scheduling.ObservedNode{down}}, noon)
	require.False(t, d.state.Nodes[0].Unavailable, "a later watch starts with a full list")
	d.state.Update(scheduling.NodeUpdate{Watch: noon, Nodes: []scheduling.ObservedNode{down}, Gone: []string{"zebra"}}, noon)
	require.True(t, d.state.Nodes[0].Unavailable)
	d.state.Update(scheduling.NodeUpdate{Watch: noon, Gone: []string{"a"}}, noon)
	require.Empty(t, d.state.Nodes)
}

func TestUnreadableBudgetsAllowNothing(t *testing.T) {
	d := newScheduler(1, "a")
	d.state.Update(scheduling.NodeUpdate{Watch: noon, ConfigTrouble: "there are 2 MaintenanceOperatorConfigs"}, noon)
	require.Empty(t, d.request("june", slot("a", 1)))
	require.Equal(t, []string{"june:; InvalidConfig"}, d.later())
	d.state.Update(scheduling.NodeUpdate{Watch: noon, Config: parallelOperations(1)}, noon)
	require.Equal(t, []string{"june: on-a"}, d.decide())
}

func TestTheOwnerLearnsThatItsNodeIsGoneUntilItDropsTheRequest(t *testing.T) {
	d := newScheduler(2, "a", "b")
	require.Equal(t, []string{"june: on-a; NodeNotFound"}, d.request("june", slot("a", 1), slot("gone", 2), slot("new", 3)))
	require.Equal(t, []string{"gone", "new"}, d.state.Decide(d.now, nil).Missing())
	d.state.Update(scheduling.NodeUpdate{Watch: noon, Nodes: []scheduling.ObservedNode{observed("new")}}, noon)
	d.state.NodesGone([]string{"a", "gone", "new"})
	d.sent = nil
	require.Equal(t, []string{"june: on-new"}, d.decide(), "the watch has listed the node")
	require.Equal(t, []int64{2}, d.sent[0].NodesGone)
	require.Equal(t, []string{"june:"}, d.send("june"), "its set still has the request")
	require.Empty(t, d.release("june", returned(2)))

	d.request("july", slot("gone", 1))
	d.state.NodesGone([]string{"gone"})
	require.Equal(t, []string{"july:"}, d.decide())
	d.release("july", returned(1))
	require.Len(t, d.state.Requesters, 1, "july has no request left")
}

func TestALostResponseIsSentAgain(t *testing.T) {
	d := newScheduler(1, "a", "b")
	d.request("june", slot("a", 1), slot("b", 2), slot("gone", 3))
	d.state.NodesGone([]string{"gone"})
	d.decide()
	lost := d.sent[len(d.sent)-1]
	d.sent = nil
	retryAt := d.now.Add(30 * time.Second)
	d.state.Undelivered(lost, retryAt)
	require.Empty(t, d.decide())
	require.Equal(t, retryAt, d.again)
	d.later()
	require.Equal(t, lost.Granted, d.sent[0].Granted)
	require.Equal(t, lost.NodesGone, d.sent[0].NodesGone)
	require.Equal(t, lost.Wait.Reason, d.sent[0].Wait.Reason)

	d.state.Undelivered(lost, d.now.Add(time.Hour))
	require.Empty(t, d.decide(), "a later response has arrived")
	require.Zero(t, d.again)
	d.state.Undelivered(scheduling.SlotResponse{Owner: owner("unknown")}, retryAt)
	require.Len(t, d.state.Requesters, 1)
}

func TestARecreatedNodeIsGrantedWithinTheLimits(t *testing.T) {
	d := newScheduler(1, "a", "b")
	d.request("june", slot("a", 1))
	d.request("july", slot("b", 1))
	d.state.Update(scheduling.NodeUpdate{Watch: noon, Gone: []string{"a", "b"}}, noon)
	require.Empty(t, d.decide(), "a deleted node gets no grant")
	d.state.Update(scheduling.NodeUpdate{Watch: noon, Nodes: []scheduling.ObservedNode{observed("b")}}, noon)
	require.Empty(t, d.decide(), "june keeps the slot, because a may return")
	require.Equal(t, []string{"july: on-b"}, d.release("june", returned(1)))
}

func TestANodeWithTheMarkOfAMaintenanceWithoutASlotHoldsOne(t *testing.T) {
	d := newScheduler(1, "a", "b")
	marked := observed("a")
	marked.Maintenance = "node/c/default/of-yesterday"
	d.state.Update(scheduling.NodeUpdate{Watch: noon, Nodes: []scheduling.ObservedNode{marked}}, noon)
	require.Empty(t, d.request("june", slot("a", 1), slot("b", 2)))
	d.later()
	require.Equal(t, "NodeBusy", d.sent[0].Wait.Blockers[0].Reason)
	require.Contains(t, d.sent[0].Wait.Message, "under maintenance by node/c/default/of-yesterday")
	d.state.Update(scheduling.NodeUpdate{Watch: noon, Nodes: []scheduling.ObservedNode{observed("a")}}, noon)
	require.Equal(t, []string{"june: on-a; NoSlot"}, d.decide())
}

func TestTheMarkOfAReturnedNodeDoesNotDelayTheNextGrant(t *testing.T) {
	d := newScheduler(1, "a", "b")
	d.request("june", slot("a", 1), slot("b", 2))
	marked := observed("a")
	marked.Maintenance = maintenanceOn("a")
	d.state.Update(scheduling.NodeUpdate{Watch: noon, Nodes: []scheduling.ObservedNode{marked}}, noon)
	require.Equal(t, []string{"june: on-b"}, d.release("june", returned(1)))
	d.now = d.now.Add(time.Minute)
	d.release("june", returned(2))
	require.Empty(t, d.request("june", slot("b", 3)), "half a minute later, the mark counts")
}

func TestAReturnedSlotIsNotRestoredByAStaleSet(t *testing.T) {
	d := newScheduler(1, "a", "b", "c")
	d.request("june", slot("a", 1), slot("b", 2))
	require.Equal(t, []string{"june: on-b"}, d.returnSlot("june", 1))
	for _, pause := range []time.Duration{0, time.Minute, time.Hour} {
		d.now = d.now.Add(pause)
		d.decide()
		d.send("june")
		require.Equal(t, []string{"on-b"}, names(d.state.Slots()), "however long the maintenance continues after the return")
	}
	d.release("june", returned(1))
	d.now = d.now.Add(time.Hour)
	d.decide()
	require.Len(t, d.state.Requesters[0].Slots, 1, "the owner knows of the return")
}

func names(served []scheduling.QueueEntry) (names []string) {
	for _, place := range served {
		names = append(names, place.Name)
	}
	return names
}

func TestTheSlotOfAnUnreturnedNodeIsKeptUntilItsMarksAreListed(t *testing.T) {
	d := newScheduler(1, "a", "b")
	d.request("june", slot("a", 1), slot("b", 2))
	require.Empty(t, d.release("june", unclean(1)))
	require.Equal(t, noon.Add(scheduling.UncleanPause), d.again)
	marked := observed("a")
	marked.Maintenance = maintenanceOn("a")
	d.state.Update(scheduling.NodeUpdate{Watch: noon, Nodes: []scheduling.ObservedNode{marked}}, noon)
	require.Empty(t, d.later(), "the mark holds the node")
	d.state.Update(scheduling.NodeUpdate{Watch: noon, Nodes: []scheduling.ObservedNode{observed("a")}}, noon)
	require.Equal(t, []string{"june: on-b"}, d.decide())
}

func TestANodeThatCouldNotBeReturnedAlwaysCounts(t *testing.T) {
	for _, leftOut := range []bool{true, false} {
		d := newScheduler(1, "a", "b")
		d.request("june", slot("a", 1), slot("b", 2))
		marked := observed("a")
		marked.Maintenance = maintenanceOn("a")
		d.state.Update(scheduling.NodeUpdate{Watch: noon, Nodes: []scheduling.ObservedNode{marked}}, noon)
		kept := scheduling.Release{Number: 1, Unclean: true, LeftOut: leftOut}
		require.Empty(t, d.release("june", kept))
		for range 40 {
			d.now = d.now.Add(time.Second)
			d.decide()
			require.Equal(t, 1, d.state.Queue(d.now, nil)[len(d.state.Slots())].Rank, "b waits at %s", d.now)
		}
		d.state.Update(scheduling.NodeUpdate{Watch: noon, Nodes: []scheduling.ObservedNode{observed("a")}}, noon)
		require.Equal(t, []string{"june: on-b"}, d.decide())
	}
}

func TestARepeatedMaintenanceWaitsForTheEndOfTheEarlierOne(t *testing.T) {
	d := newScheduler(1, "a", "b")
	d.request("june", slot("a", 1))
	d.release("june", unclean(1))
	require.Empty(t, d.request("june", slot("a", 2)))
	require.Empty(t, d.request("july", slot("b", 1)), "june's first maintenance may still cordon its node")
	d.now = noon.Add(scheduling.UncleanPause)
	require.Contains(t, d.decide(), "july: on-b")
}

func TestTheMarkOfANewMaintenanceCountsAfterAReturnUnderTheSameName(t *testing.T) {
	d := newScheduler(1, "a", "b")
	d.request("june", slot("a", 1))
	d.release("june", returned(1))
	d.request("june", slot("a", 2))
	d.state.OwnerClosed(scheduling.Holder{SlotOwner: owner("june")}, d.now)
	marked := observed("a")
	marked.Maintenance = maintenanceOn("a")
	d.state.Update(scheduling.NodeUpdate{Watch: noon, Nodes: []scheduling.ObservedNode{marked}}, noon)
	d.now = noon.Add(scheduling.UncleanPause)
	require.Empty(t, d.request("july", slot("b", 1)))
}

func TestANodeThatIsLeftOutOfServiceIsUnavailableImmediately(t *testing.T) {
	d := newScheduler(2, "a", "b", "c")
	d.state.Update(scheduling.NodeUpdate{Watch: noon, Config: &maintenancev1.MaintenanceOperatorConfigSpec{MaxUnavailable: new(intstr.FromInt(1))}}, noon)
	d.request("june", slot("a", 1), slot("b", 2))
	require.Equal(t, []string{"june:; MaxUnavailable"}, append(d.release("june", leftOut(1)), d.later()...))
}

func TestAWithdrawnRequestDoesNotMakeItsNodeUnavailable(t *testing.T) {
	d := newScheduler(2, "a", "b", "c")
	config := parallelOperations(2)
	config.MaxUnavailable = new(intstr.FromInt(2))
	d.state.Update(scheduling.NodeUpdate{Watch: noon, Config: config}, noon)
	d.request("june", slot("a", 1))
	d.request("july", slot("a", 1))
	d.release("july", leftOut(1))
	d.release("june", returned(1))
	require.Equal(t, []string{"may: on-b on-c"}, d.request("may", slot("b", 1), slot("c", 2)), "a is back in service")
}

func TestAClosedOwnerLosesItsRequestsAndTheSlotsWithoutAMaintenance(t *testing.T) {
	d := newScheduler(2, "a", "b", "c")
	d.request("june", slot("a", 1), slot("b", 2), slot("c", 3))
	require.Equal(t, []scheduling.Holder{{SlotOwner: owner("june"), Maintenances: []string{maintenanceOn("a"), maintenanceOn("b")}}}, d.state.Holders())
	running := scheduling.Holder{SlotOwner: owner("june"), Maintenances: []string{maintenanceOn("b")}}
	require.Equal(t, []string{"a"}, d.state.OwnerClosed(running, d.now))
	d.request("july", slot("c", 1))
	require.Empty(t, d.state.OwnerClosed(running, d.now), "only once")
	d.now = noon.Add(scheduling.UncleanPause)
	require.Equal(t, []string{"july: on-c"}, d.decide())
	d.send("june")
	require.Equal(t, []string{"on-b", "on-c"}, names(d.state.Slots()), "its last set may be late")
	d.returnSlot("june", 2)
	require.Equal(t, []string{"on-c"}, names(d.state.Slots()))
}

func TestManyResponsesAreSentInSeveralPasses(t *testing.T) {
	d := newScheduler(300)
	for i := range 250 {
		d.state.Update(scheduling.NodeUpdate{Watch: noon, Nodes: []scheduling.ObservedNode{observed(fmt.Sprintf("n%03d", i))}}, noon)
		set := d.setOf(fmt.Sprint(i))
		set.Slots = []scheduling.Slot{slot(fmt.Sprintf("n%03d", i), 1)}
		d.state.Receive(*set, d.now)
	}
	require.Len(t, d.decide(), 100)
	require.Equal(t, d.now, d.again, "the next pass is due immediately")
	require.Len(t, d.later(), 100)
	require.Len(t, d.later(), 50)
	require.Zero(t, d.again)
}

func TestTheQueueListsHoldersThenWaitingRequestsByRank(t *testing.T) {
	d := newScheduler(1, "a", "b", "c")
	d.request("june", slot("a", 1), slot("c", 2), slot("b", 3))
	var queue []string
	for _, place := range d.state.Queue(d.now, nil) {
		queue = append(queue, fmt.Sprintf("%d %s %s", place.Rank, place.Node, place.Reason))
	}
	require.Equal(t, []string{"0 a ", "1 c NoSlot", "2 b NoSlot"}, queue)
}
