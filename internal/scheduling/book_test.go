package scheduling_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
)

// desk is a scheduler's desk: a book, and what its askers were told.
type desk struct {
	book scheduling.Book
	now  time.Time
	told []scheduling.Turn
	// again is when the book wants to decide next.
	again time.Time
}

// newDesk sees nodes of these names, of which so many may be under maintenance at once.
func newDesk(parallel int, nodes ...string) *desk {
	d := &desk{now: noon}
	sight := scheduling.Sight{From: noon, First: true, Last: true, Config: parallelOperations(parallel)}
	for _, name := range nodes {
		sight.Nodes = append(sight.Nodes, seen(name))
	}
	d.book.See(sight)
	return d
}

func parallelOperations(number int) *maintenancev1.MaintenanceOperatorConfigSpec {
	return &maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(number))}
}

func seen(name string) scheduling.SeenNode {
	return scheduling.SeenNode{Node: scheduling.Node{Name: name}}
}

// slot is request number number for a node; the higher, the later it was asked for.
func slot(node string, number int64) scheduling.Slot {
	return scheduling.Slot{
		Request: scheduling.Request{Namespace: "default", Name: "on-" + node, Node: node, Requestor: "a.example.com"},
		Number:  number, Since: noon.Add(time.Duration(number) * time.Second), Maintenance: "node/c/default/on-" + node,
	}
}

func asker(name string) scheduling.Asker {
	return scheduling.Asker{WorkflowID: name, FirstRunID: "run-of-" + name}
}

func (d *desk) ask(who string, slots ...scheduling.Slot) []string {
	d.book.Take(scheduling.Call{Asker: asker(who), Slots: slots}, d.now)
	return d.decide()
}

func (d *desk) release(who string, released ...scheduling.Release) []string {
	d.book.Take(scheduling.Call{Asker: asker(who), Released: released}, d.now)
	return d.decide()
}

func returned(node string, number int64) scheduling.Release {
	return scheduling.Release{Namespace: "default", Name: "on-" + node, Number: number}
}

// decide returns who was told what, as "asker: granted names; reason".
func (d *desk) decide() []string { return d.decideIn(nil) }

func (d *desk) decideIn(standstill *drydockv1.Wait) (told []string) {
	outcome := d.book.Decide(d.now, standstill)
	d.again = outcome.Again
	for _, turn := range outcome.Turns {
		text := turn.Asker.WorkflowID + ":"
		for _, grant := range turn.Granted {
			text += " " + grant.Name
		}
		if turn.Wait != nil {
			text += "; " + turn.Wait.Reason
		}
		told = append(told, text)
	}
	d.told = append(d.told, outcome.Turns...)
	return told
}

// later decides again when the book wants to.
func (d *desk) later() []string {
	d.now = d.again
	return d.decide()
}

func TestASlotIsGrantedOnceAndHandedOnWhenItIsReturned(t *testing.T) {
	d := newDesk(1, "a", "b")
	require.Equal(t, []string{"june: on-a; NoSlot"}, d.ask("june", slot("a", 1), slot("b", 2)))
	require.Empty(t, d.decide(), "nobody is told twice")
	require.Equal(t, []string{"june: on-b"}, d.release("june", returned("a", 1)))
	require.Empty(t, d.release("june", returned("b", 2)))
	require.True(t, d.book.Empty())
}

func TestAWaitIsToldWhenItHasStoodForASecondAndAtOnceAgainOnlyForAnotherReason(t *testing.T) {
	d := newDesk(1, "a", "b")
	d.ask("june", slot("a", 1))
	require.Empty(t, d.ask("july", slot("b", 1)))
	require.Equal(t, noon.Add(time.Second), d.again)
	require.Equal(t, []string{"july:; NoSlot"}, d.later())
	require.Zero(t, d.again)
	d.now = d.now.Add(time.Hour)
	require.Empty(t, d.decide())
	require.Empty(t, d.decideIn(&drydockv1.Wait{Reason: "Held"}))
	d.now = d.again
	require.Equal(t, []string{"july:; Held"}, d.decideIn(&drydockv1.Wait{Reason: "Held"}))
}

// Who waits is not to read for hours of holders that left long ago.
func TestWhatElseThereIsToSayOfAWaitIsToldNowAndThen(t *testing.T) {
	d := newDesk(1, "a", "b", "c")
	d.ask("june", slot("a", 1))
	d.ask("july", slot("b", 2))
	d.ask("august", slot("c", 3))
	d.later()
	d.told = nil
	told := d.now

	require.Equal(t, []string{"july: on-b"}, d.release("june", returned("a", 1)))
	require.Equal(t, told.Add(time.Minute), d.again, "the reason is the same, but not who has the slot")
	require.Equal(t, []string{"august:; NoSlot"}, d.later())
	require.Contains(t, d.told[1].Wait.Message, "(b for a.example.com)")
	require.Zero(t, d.again)
	require.Empty(t, d.decide())

	another := scheduling.Sight{From: noon, Nodes: []scheduling.SeenNode{seen("e")}}
	d.now = noon.Add(5 * time.Hour)
	d.book.See(another)
	require.Equal(t, []string{"august:; NoSlot"}, d.decide(), "it is one of 5 nodes now")
	told = d.now
	d.book.See(scheduling.Sight{From: noon, Gone: []string{"e"}})
	require.Empty(t, d.decide())
	require.WithinDuration(t, told.Add(30*time.Minute), d.again, time.Second, "who waits for hours is told less often")
	d.book.See(another)
	require.Empty(t, d.decide())
	require.Zero(t, d.again, "it is as it was told")
	d.now = noon.Add(1000 * time.Hour)
	d.book.See(scheduling.Sight{From: noon, Gone: []string{"e"}})
	require.Len(t, d.decide(), 1)
	d.book.See(another)
	require.Empty(t, d.decide())
	require.Equal(t, d.now.Add(time.Hour), d.again)
}

func TestAWaitOfSeveralNamesTheNextAndAllWithTheirReasons(t *testing.T) {
	d := newDesk(1, "a", "b", "c")
	d.ask("june", slot("a", 1), slot("b", 2), slot("c", 3))
	wait := d.told[0].Wait
	require.Equal(t, "on-b is next of 2: maxParallelOperations allows 1 of 3 nodes under maintenance at once (a for a.example.com)",
		"on-"+wait.Message)
	require.Len(t, wait.Blockers, 2)
	require.Equal(t, "c", wait.Blockers[1].Name)
}

func TestANodeThatOnlyAMarkHoldsIsNamedWithIt(t *testing.T) {
	d := newDesk(1, "a", "b")
	marked := seen("a")
	marked.Maintenance = "node/c/default/over"
	d.book.See(scheduling.Sight{From: noon, Nodes: []scheduling.SeenNode{marked}})
	d.ask("june", slot("b", 1))
	d.later()
	require.Contains(t, d.told[0].Wait.Message, "allows 1 of 2 nodes under maintenance at once (a with the mark of node/c/default/over)")
}

func TestWhatIsAskedTwiceIsGrantedOnceAndToldAgain(t *testing.T) {
	d := newDesk(2, "a", "b")
	require.Equal(t, []string{"june: on-a"}, d.ask("june", slot("a", 1)))
	require.Equal(t, []string{"june: on-a"}, d.ask("june", slot("a", 1)), "it says that it does not know")
	known := slot("a", 1)
	known.Granted = true
	require.Empty(t, d.ask("june", known))
	require.Len(t, d.book.Queue(d.now, nil), 1)
}

func TestASchedulerThatHasForgottenEverythingIsToldWhoHasSlots(t *testing.T) {
	d := newDesk(1, "a", "b")
	granted := slot("a", 1)
	granted.Granted = true
	require.Equal(t, []string{"june:; NoSlot"}, append(d.ask("june", granted, slot("b", 2)), d.later()...))
}

func TestAnOldReleaseDoesNotTouchANewerRequest(t *testing.T) {
	d := newDesk(1, "a")
	d.ask("june", slot("a", 1))
	d.ask("june", slot("a", 2))
	require.Empty(t, d.release("june", returned("a", 1)))
	require.False(t, d.book.Empty())
	d.release("another", returned("a", 2))
	require.False(t, d.book.Empty(), "only its asker gives a slot back")
	d.release("june", returned("a", 2))
	require.True(t, d.book.Empty())
}

func TestUntilAllNodesAreSeenNothingIsGranted(t *testing.T) {
	d := &desk{now: noon}
	require.Empty(t, d.ask("june", slot("a", 1)))
	require.Equal(t, []string{"june:; NodesUnknown"}, d.later())
	d.book.See(scheduling.Sight{From: noon, First: true, Nodes: []scheduling.SeenNode{seen("a")}, Config: parallelOperations(1)})
	require.Empty(t, d.decide(), "half of the nodes")
	d.book.See(scheduling.Sight{From: noon, Last: true, Nodes: []scheduling.SeenNode{seen("b")}})
	require.Equal(t, []string{"june: on-a"}, d.decide())
}

func TestWhatAnEarlierWatchSeesIsOutOfDate(t *testing.T) {
	d := newDesk(1, "a")
	down := seen("a")
	down.Unavailable = true
	d.book.See(scheduling.Sight{From: noon.Add(-time.Second), Nodes: []scheduling.SeenNode{down}})
	require.False(t, d.book.Nodes[0].Unavailable)
	d.book.See(scheduling.Sight{From: noon.Add(time.Second), Nodes: []scheduling.SeenNode{down}})
	require.False(t, d.book.Nodes[0].Unavailable, "a later one begins with all nodes")
	d.book.See(scheduling.Sight{From: noon, Nodes: []scheduling.SeenNode{down}, Gone: []string{"zebra"}})
	require.True(t, d.book.Nodes[0].Unavailable)
	d.book.See(scheduling.Sight{From: noon, Gone: []string{"a"}})
	require.Empty(t, d.book.Nodes)
}

func TestBudgetsThatCannotBeReadAllowNothingUntilTheyCan(t *testing.T) {
	d := newDesk(1, "a")
	d.book.See(scheduling.Sight{From: noon, ConfigTrouble: "there are 2 MaintenanceOperatorConfigs"})
	require.Empty(t, d.ask("june", slot("a", 1)))
	require.Equal(t, []string{"june:; InvalidConfig"}, d.later())
	d.book.See(scheduling.Sight{From: noon, Config: parallelOperations(1)})
	require.Equal(t, []string{"june: on-a"}, d.decide())
}

func TestARequestForANodeThatIsGoneIsOverAndItsAskerIsToldOnce(t *testing.T) {
	d := newDesk(2, "a", "b")
	require.Equal(t, []string{"june: on-a; NodeNotFound"}, d.ask("june", slot("a", 1), slot("gone", 2), slot("new", 3)))
	require.Equal(t, []string{"gone", "new"}, d.book.Decide(d.now, nil).Missing())
	d.book.See(scheduling.Sight{From: noon, Nodes: []scheduling.SeenNode{seen("new")}})
	d.book.Miss([]string{"a", "gone", "new"})
	d.told = nil
	require.Equal(t, []string{"june: on-new"}, d.decide(), "it was seen meanwhile")
	require.Equal(t, []scheduling.Grant{{Namespace: "default", Name: "on-gone", Number: 2}}, d.told[0].Gone)
	require.Empty(t, d.later())

	d.ask("july", slot("gone", 1))
	d.book.Miss([]string{"gone"})
	require.Equal(t, []string{"july:"}, d.decide())
	require.Len(t, d.book.Parties, 1, "july has nothing left to wait for")
}

func TestAnAskerThatWasNotReachedIsToldAgainThatItsNodeIsGone(t *testing.T) {
	d := newDesk(2, "a")
	d.ask("july", slot("gone", 1))
	d.book.Miss([]string{"gone"})
	d.told = nil
	d.decide()
	require.True(t, d.book.Empty(), "july has nothing left to wait for")
	first := d.told[0]
	d.book.Untell(first)
	d.told = nil
	d.decide()
	require.Equal(t, first.Gone, d.told[0].Gone)
	require.True(t, d.book.Empty())

	d.book.Untell(scheduling.Turn{Asker: first.Asker})
	require.True(t, d.book.Empty(), "there is nothing to tell")
}

func TestANodeThatComesBackIsGrantedWithinTheLimitsLikeAnyOther(t *testing.T) {
	d := newDesk(1, "a", "b")
	d.ask("june", slot("a", 1))
	d.ask("july", slot("b", 1))
	d.book.See(scheduling.Sight{From: noon, Gone: []string{"a", "b"}})
	require.Empty(t, d.decide(), "nothing is granted for a node that nobody sees")
	d.book.See(scheduling.Sight{From: noon, Nodes: []scheduling.SeenNode{seen("b")}})
	require.Empty(t, d.decide(), "june has the slot until it gives it back: a may be back, too")
	require.Equal(t, []string{"july: on-b"}, d.release("june", returned("a", 1)))
}

func TestANodeWithTheMarkOfAMaintenanceWithoutASlotHoldsOne(t *testing.T) {
	d := newDesk(1, "a", "b")
	marked := seen("a")
	marked.Maintenance = "node/c/default/of-yesterday"
	d.book.See(scheduling.Sight{From: noon, Nodes: []scheduling.SeenNode{marked}})
	require.Empty(t, d.ask("june", slot("a", 1), slot("b", 2)))
	d.later()
	require.Equal(t, "NodeBusy", d.told[0].Wait.Blockers[0].Reason)
	require.Contains(t, d.told[0].Wait.Message, "under maintenance by node/c/default/of-yesterday")
	d.book.See(scheduling.Sight{From: noon, Nodes: []scheduling.SeenNode{seen("a")}})
	require.Equal(t, []string{"june: on-a; NoSlot"}, d.decide())
}

func TestTheMarkOfANodeThatWasJustReturnedDoesNotHoldUpTheNext(t *testing.T) {
	d := newDesk(1, "a", "b")
	d.ask("june", slot("a", 1), slot("b", 2))
	marked := seen("a")
	marked.Maintenance = "node/c/default/on-a"
	d.book.See(scheduling.Sight{From: noon, Nodes: []scheduling.SeenNode{marked}})
	require.Equal(t, []string{"june: on-b"}, d.release("june", returned("a", 1)))
	d.now = d.now.Add(time.Minute)
	d.release("june", returned("b", 2))
	require.Empty(t, d.ask("june", slot("b", 3)), "half a minute later it is the mark of a maintenance that could not return its node")
}

func TestASlotThatWasGivenBackDoesNotComeBackByAnAccountOfAnAskerThatHasNotHeardOfIt(t *testing.T) {
	for name, unclean := range map[string]bool{"returned": false, "unclean": true} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(1, "a", "b", "c")
			d.ask("june", slot("a", 1), slot("b", 2))
			a := slot("a", 1)
			a.Granted = true
			account := scheduling.Call{Asker: asker("june"), Slots: []scheduling.Slot{a, slot("b", 2)}, All: true}
			release := returned("a", 1)
			release.Unheard, release.Unclean = true, unclean
			d.release("june", release)
			d.book.Take(account, d.now)
			d.now = noon.Add(scheduling.UncleanPause)
			d.decide()
			require.Equal(t, []string{"on-b"}, names(d.book.Served()))
			if unclean {
				return
			}
			d.now = noon.Add(time.Hour)
			d.decide()
			d.book.Take(account, d.now)
			require.Equal(t, []string{"on-b"}, names(d.book.Served()), "however long whoever gave it back goes on")
			d.release("june", returned("a", 1))
			d.decide()
			require.Empty(t, d.book.Returned, "the asker has heard of it")
		})
	}
}

func names(served []scheduling.Place) (names []string) {
	for _, place := range served {
		names = append(names, place.Name)
	}
	return names
}

func TestASlotWhoseHolderEndedUncleanIsKeptUntilItsMarksWereSeen(t *testing.T) {
	d := newDesk(1, "a", "b")
	d.ask("june", slot("a", 1), slot("b", 2))
	unclean := returned("a", 1)
	unclean.Unclean = true
	require.Empty(t, d.release("june", unclean))
	require.Equal(t, noon.Add(scheduling.UncleanPause), d.again)
	marked := seen("a")
	marked.Maintenance = "node/c/default/on-a"
	d.book.See(scheduling.Sight{From: noon, Nodes: []scheduling.SeenNode{marked}})
	require.Empty(t, d.later(), "the mark holds the node")
	d.book.See(scheduling.Sight{From: noon, Nodes: []scheduling.SeenNode{seen("a")}})
	require.Equal(t, []string{"june: on-b"}, d.decide())
}

func TestANodeThatCouldNotBeReturnedCountsWithoutABreak(t *testing.T) {
	for _, leftOut := range []bool{true, false} {
		d := newDesk(1, "a", "b")
		d.ask("june", slot("a", 1), slot("b", 2))
		marked := seen("a")
		marked.Maintenance = "node/c/default/on-a"
		d.book.See(scheduling.Sight{From: noon, Nodes: []scheduling.SeenNode{marked}})
		kept := returned("a", 1)
		kept.Unclean, kept.LeftOut = true, leftOut
		require.Empty(t, d.release("june", kept))
		for range 40 {
			d.now = d.now.Add(time.Second)
			d.decide()
			require.Equal(t, 1, d.book.Queue(d.now, nil)[len(d.book.Served())].Rank, "b waits at %s", d.now)
		}
		d.book.See(scheduling.Sight{From: noon, Nodes: []scheduling.SeenNode{seen("a")}})
		require.Equal(t, []string{"june: on-b"}, d.decide())
	}
}

func TestAMaintenanceThatIsAskedForAnewWaitsUntilTheOneBeforeCanDoNothingMore(t *testing.T) {
	d := newDesk(1, "a", "b")
	d.ask("june", slot("a", 1))
	unclean := returned("a", 1)
	unclean.Unclean = true
	d.release("june", unclean)
	require.Empty(t, d.ask("june", slot("a", 2)))
	require.Empty(t, d.ask("july", slot("b", 1)), "june's first may still cordon its node")
	d.now = noon.Add(scheduling.UncleanPause)
	require.Contains(t, d.decide(), "july: on-b")
}

func TestTheMarkOfAMaintenanceCountsAlthoughOneOfTheSameNameHasJustReturnedItsNode(t *testing.T) {
	d := newDesk(1, "a", "b")
	d.ask("june", slot("a", 1))
	d.release("june", returned("a", 1))
	d.ask("june", slot("a", 2))
	d.book.Lose(scheduling.Holder{Asker: asker("june")}, d.now)
	marked := seen("a")
	marked.Maintenance = "node/c/default/on-a"
	d.book.See(scheduling.Sight{From: noon, Nodes: []scheduling.SeenNode{marked}})
	d.now = noon.Add(scheduling.UncleanPause)
	require.Empty(t, d.ask("july", slot("b", 1)))
}

func TestANodeThatWasLeftOutOfServiceIsUnavailableAtOnce(t *testing.T) {
	d := newDesk(2, "a", "b", "c")
	d.book.See(scheduling.Sight{From: noon, Config: &maintenancev1.MaintenanceOperatorConfigSpec{MaxUnavailable: new(intstr.FromInt(1))}})
	d.ask("june", slot("a", 1), slot("b", 2))
	left := returned("a", 1)
	left.LeftOut = true
	require.Equal(t, []string{"june:; MaxUnavailable"}, append(d.release("june", left), d.later()...))
}

func TestANodeIsNotUnavailableBecauseWhoeverWaitsForItGivesUp(t *testing.T) {
	d := newDesk(2, "a", "b", "c")
	config := parallelOperations(2)
	config.MaxUnavailable = new(intstr.FromInt(2))
	d.book.See(scheduling.Sight{From: noon, Config: config})
	d.ask("june", slot("a", 1))
	d.ask("july", slot("a", 1))
	left := returned("a", 1)
	left.LeftOut = true
	d.release("july", left)
	d.release("june", returned("a", 1))
	require.Equal(t, []string{"may: on-b on-c"}, d.ask("may", slot("b", 1), slot("c", 2)), "a is back in service")
}

func TestAnAskerThatIsOverLosesWhatItWaitsForAndTheSlotsNobodyWorksOn(t *testing.T) {
	d := newDesk(2, "a", "b", "c")
	d.ask("june", slot("a", 1), slot("b", 2), slot("c", 3))
	require.Equal(t, []scheduling.Holder{{Asker: asker("june"), Maintenances: []string{"node/c/default/on-a", "node/c/default/on-b"}}}, d.book.Holders())
	lost := d.book.Lose(scheduling.Holder{Asker: asker("june"), Maintenances: []string{"node/c/default/on-b"}}, d.now)
	require.Len(t, lost, 1)
	require.Equal(t, "a", lost[0].Node)
	d.ask("july", slot("c", 1))
	require.Empty(t, d.book.Lose(scheduling.Holder{Asker: asker("june"), Maintenances: []string{"node/c/default/on-b"}}, d.now), "told once")
	d.now = noon.Add(scheduling.UncleanPause)
	require.Equal(t, []string{"july: on-c"}, d.decide())
}

func TestManyAreToldInSeveralPasses(t *testing.T) {
	d := newDesk(300)
	for i := range 250 {
		d.book.See(scheduling.Sight{From: noon, Nodes: []scheduling.SeenNode{seen(fmt.Sprintf("n%03d", i))}})
		d.book.Take(scheduling.Call{Asker: asker(fmt.Sprint(i)), Slots: []scheduling.Slot{slot(fmt.Sprintf("n%03d", i), 1)}}, d.now)
	}
	require.Len(t, d.decide(), 100)
	require.Equal(t, d.now, d.again, "at once")
	require.Len(t, d.later(), 100)
	require.Len(t, d.later(), 50)
	require.Zero(t, d.again)
}

func TestTheQueueNamesHoldersAndThenThoseThatWaitInOrderOfRank(t *testing.T) {
	d := newDesk(1, "a", "b", "c")
	d.ask("june", slot("a", 1), slot("c", 2), slot("b", 3))
	var queue []string
	for _, place := range d.book.Queue(d.now, nil) {
		queue = append(queue, fmt.Sprintf("%d %s %s", place.Rank, place.Node, place.Reason))
	}
	require.Equal(t, []string{"0 a ", "1 c NoSlot", "2 b NoSlot"}, queue)
}

func TestWhoWaitsForANodeIsToldWhoHasItAndWhenThatIsSomebodyElse(t *testing.T) {
	d := newDesk(2, "n1", "n2")
	d.ask("first", slot("n1", 1))
	d.ask("second", slot("n1", 2))
	d.ask("third", slot("n1", 3))
	d.told, d.now = nil, d.now.Add(2*time.Second)
	d.decide()
	require.Len(t, d.told, 2)
	for _, turn := range d.told {
		require.Equal(t, asker("first"), *turn.Holder, turn.Asker)
	}

	d.release("first", returned("n1", 1))
	d.decide()
	d.told, d.now = nil, d.now.Add(2*time.Second)
	d.decide()
	require.Len(t, d.told, 1)
	require.Equal(t, asker("third"), d.told[0].Asker)
	require.Equal(t, asker("second"), *d.told[0].Holder, "the reason is the same, but not the holder")
}

func TestARolloutIsToldWhichMaintenancesHaveTheNodesThatItWaitsFor(t *testing.T) {
	d := newDesk(5, "a", "b", "c", "d")
	person, other := asker("node/c/default/on-a"), asker("other")
	d.ask(person.WorkflowID, slot("a", 1)) // for itself
	d.ask(other.WorkflowID, slot("b", 1))  // a rollout, for a child
	d.told = nil
	mine := []scheduling.Slot{slot("a", 2), slot("b", 3), slot("c", 4)}
	for i := range mine {
		mine[i].Name, mine[i].Maintenance = "june-"+mine[i].Node, "node/c/default/june-"+mine[i].Node
	}
	require.Len(t, d.ask("june", mine...), 1)
	d.now = d.now.Add(2 * time.Second)
	d.decide()
	held := []scheduling.HeldNode{{Node: "a", Holder: person, Number: 1}}
	require.Equal(t, held, d.told[len(d.told)-1].Held)
	d.told = nil
	d.now = d.now.Add(2 * time.Second)
	d.decide()
	require.Empty(t, d.told, "it is told once")

	own := slot("a", 9)
	own.Name, own.Maintenance = "second", "node/c/default/second"
	d.ask("node/c/default/second", own)
	d.now = d.now.Add(2 * time.Second)
	d.decide()
	require.Len(t, d.told, 1)
	require.Equal(t, person, *d.told[0].Holder)
	require.Empty(t, d.told[0].Held, "a maintenance that asks for itself knows the holder")
}
