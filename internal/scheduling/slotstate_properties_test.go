package scheduling_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"drydock.dev/drydock/internal/scheduling"
)

// slotWorld simulates the environment of a scheduler: owners start and close, maintenances return their nodes or do not, nodes come and go, messages are
// lost, late or duplicated, and schedulers are terminated. It knows the true set of nodes out of service.
type slotWorld struct {
	state                 scheduling.SlotState
	now                   time.Time
	nodes                 []string
	parallel, unavailable int
	number                int64
	// running are the owners with running workflows. closed are those whose maintenances may continue.
	running, closed []scheduling.SlotOwner
	sets            map[scheduling.SlotOwner]*scheduling.SlotRequests
	// held are the slots in use, by node. returned are those that their owners still list.
	held, returned map[scheduling.SlotOwner]map[string]scheduling.Slot
	// lateSets are old sets that may still arrive.
	lateSets []scheduling.SlotRequests
	// ending are nodes whose maintenance ended without returning them, and may still write until then. marked are nodes with the mark of such a maintenance.
	ending map[string]ending
	marked map[string]string
	// gone are nodes that do not exist, down those that are unavailable.
	gone, down map[string]bool
	// watch is the start of the current watch. blind: it has listed no node yet.
	watch time.Time
	blind bool
	// reliable: every response arrives.
	reliable bool
}

// ending is a maintenance that ended without returning its node, with the time of its last write.
type ending struct {
	maintenance string
	until       time.Time
}

func newSlotWorld(t *rapid.T) *slotWorld {
	w := &slotWorld{
		now: noon, nodes: []string{"a", "b", "c", "d", "e"}, watch: noon,
		parallel: rapid.IntRange(1, 3).Draw(t, "parallel"), unavailable: rapid.IntRange(1, 5).Draw(t, "unavailable"),
		sets: map[scheduling.SlotOwner]*scheduling.SlotRequests{},
		held: map[scheduling.SlotOwner]map[string]scheduling.Slot{}, returned: map[scheduling.SlotOwner]map[string]scheduling.Slot{},
		ending: map[string]ending{}, marked: map[string]string{}, gone: map[string]bool{}, down: map[string]bool{},
	}
	for _, name := range []string{"june", "july"} {
		w.start(owner(name))
	}
	w.relist()
	return w
}

func (w *slotWorld) start(owner scheduling.SlotOwner) {
	w.running = append(w.running, owner)
	w.sets[owner], w.held[owner], w.returned[owner] = emptySet(owner), map[string]scheduling.Slot{}, map[string]scheduling.Slot{}
}

func (w *slotWorld) observed(node string) scheduling.ObservedNode {
	return scheduling.ObservedNode{Node: scheduling.Node{Name: node, Unavailable: w.down[node]}, Maintenance: w.marked[node]}
}

// relist lists all nodes in a new watch.
func (w *slotWorld) relist() {
	w.watch, w.blind = w.watch.Add(time.Second), false
	config := parallelOperations(w.parallel)
	config.MaxUnavailable = new(intstr.FromInt(w.unavailable))
	w.state.Update(scheduling.NodeUpdate{Watch: w.watch, First: true, Config: config}, w.watch)
	for _, node := range w.nodes {
		if !w.gone[node] {
			w.state.Update(scheduling.NodeUpdate{Watch: w.watch, Nodes: []scheduling.ObservedNode{w.observed(node)}}, w.watch)
		}
	}
	w.state.Update(scheduling.NodeUpdate{Watch: w.watch, Last: true}, w.watch)
}

// show reports the current state of a node to the scheduler.
func (w *slotWorld) show(node string) {
	update := scheduling.NodeUpdate{Watch: w.watch, Gone: []string{node}}
	if !w.gone[node] {
		update = scheduling.NodeUpdate{Watch: w.watch, Nodes: []scheduling.ObservedNode{w.observed(node)}}
	}
	w.state.Update(update, w.watch)
}

// out returns the nodes that are, or may be, out of service for maintenance.
func (w *slotWorld) out(t *rapid.T) map[string]bool {
	out := map[string]bool{}
	for _, slots := range w.held {
		for node := range slots {
			require.False(t, out[node], "%s has two maintenances", node)
			out[node] = true
		}
	}
	for node, ending := range w.ending {
		if ending.until.After(w.now) {
			require.False(t, out[node] && w.marked[node] == "", "%s is granted while the last write of its earlier maintenance may arrive", node)
			out[node] = true
		}
	}
	for node := range w.marked {
		out[node] = true
	}
	return out
}

// listed returns the slot of a set; nil: it does not list the number.
func listed(set *scheduling.SlotRequests, number int64) *scheduling.Slot {
	if i := slices.IndexFunc(set.Slots, func(s scheduling.Slot) bool { return s.Number == number }); i >= 0 {
		return &set.Slots[i]
	}
	return nil
}

func (w *slotWorld) unlist(owner scheduling.SlotOwner, number int64) {
	w.sets[owner].Slots = slices.DeleteFunc(w.sets[owner].Slots, func(s scheduling.Slot) bool { return s.Number == number })
}

// send sends the set of an owner, once or twice, perhaps after an older one.
func (w *slotWorld) send(t *rapid.T, owner scheduling.SlotOwner, releases ...scheduling.Release) {
	w.sets[owner].Version++
	set := *w.sets[owner]
	set.Slots, set.Releases = slices.Clone(set.Slots), releases
	before := roundTrip(t, w.state)
	urgency := scheduling.NotDue
	for range rapid.IntRange(1, 2).Draw(t, "times") {
		urgency = max(urgency, w.state.Receive(set, w.now))
	}
	w.lateSets = append(w.lateSets, set)
	if outcome := w.decide(t); urgency != scheduling.DueNow {
		without := before.Decide(w.now, nil)
		require.Equal(t, without.Granted, outcome.Granted, "the set grants nothing, so its decision may wait")
		require.Len(t, outcome.Responses, len(without.Responses))
	}
}

// decide decides, checks that each grant is within the limits, and delivers responses.
func (w *slotWorld) decide(t *rapid.T) scheduling.Outcome {
	if w.state.Standstill(nil) == nil {
		require.Equal(t, plainQueue(&w.state, w.now), w.state.Queue(w.now, nil))
	}
	outcome := w.state.Decide(w.now, nil)
	w.checkGrants(t)
	reports, _ := w.state.Reports(w.now)
	for _, response := range slices.Concat(outcome.Responses, reports) {
		switch {
		case !slices.Contains(w.running, response.Owner):
		case !w.reliable && rapid.IntRange(0, 4).Draw(t, "arrives") == 0:
			w.state.Undelivered(response, w.now.Add(time.Second))
		default:
			w.receive(t, response)
		}
	}
	require.LessOrEqual(t, len(w.out(t)), w.parallel)
	return outcome
}

// checkGrants records the grants, whether the owners know them or not.
func (w *slotWorld) checkGrants(t *rapid.T) {
	for _, r := range w.state.Requesters {
		for _, e := range r.Slots {
			if e.Status != scheduling.SlotGranted || w.held[r.Owner][e.Node].Number == e.Number || w.returned[r.Owner][e.Node].Number == e.Number {
				continue
			}
			slot := listed(w.sets[r.Owner], e.Number)
			require.NotNil(t, slot, "%s gets a slot that it does not request: %d", r.Owner, e.Number)
			require.False(t, w.gone[e.Node] || w.blind, "%s is granted, but no watch has listed it", e.Node)
			out := w.out(t)
			require.False(t, out[e.Node], "%s is granted, but it is out of service", e.Node)
			require.Less(t, len(out), w.parallel, "before %s is granted", e.Node)
			w.held[r.Owner][e.Node] = *slot
			maps.Copy(out, w.down)
			require.True(t, w.down[e.Node] || len(out) <= w.unavailable, "with %s, these are unavailable: %v", e.Node, out)
		}
	}
}

func (w *slotWorld) receive(t *rapid.T, response scheduling.SlotResponse) {
	owner := response.Owner
	for _, number := range response.Granted {
		if slot := listed(w.sets[owner], number); slot != nil {
			slot.Granted = true
		}
	}
	for _, number := range response.NodesGone {
		w.unlist(owner, number)
	}
	if len(response.NodesGone) > 0 {
		w.send(t, owner)
	}
}

// known reports whether the owner of a slot knows of the grant.
func (w *slotWorld) known(owner scheduling.SlotOwner, slot scheduling.Slot) bool {
	listed := listed(w.sets[owner], slot.Number)
	return listed != nil && listed.Granted
}

// one draws a slot in use; any is false without one.
func (w *slotWorld) one(t *rapid.T) (owner scheduling.SlotOwner, slot scheduling.Slot, any bool) {
	type holding struct {
		owner scheduling.SlotOwner
		slot  scheduling.Slot
	}
	var all []holding
	for _, owner := range slices.Concat(w.running, w.closed) {
		for _, node := range slices.Sorted(maps.Keys(w.held[owner])) {
			if w.known(owner, w.held[owner][node]) {
				all = append(all, holding{owner, w.held[owner][node]})
			}
		}
	}
	if len(all) == 0 {
		return
	}
	drawn := rapid.SampledFrom(all).Draw(t, "slot")
	return drawn.owner, drawn.slot, true
}

// endUnclean records that a maintenance has ended without returning its node.
func (w *slotWorld) endUnclean(owner scheduling.SlotOwner, slot scheduling.Slot) {
	delete(w.held[owner], slot.Node)
	w.ending[slot.Node] = ending{w.sets[owner].Maintenances + slot.Name, w.now.Add(scheduling.UncleanPause)}
}

func (w *slotWorld) request(t *rapid.T) {
	owner, node := rapid.SampledFrom(w.running).Draw(t, "who"), rapid.SampledFrom(w.nodes).Draw(t, "node")
	if slices.ContainsFunc(w.sets[owner].Slots, func(s scheduling.Slot) bool { return s.Node == node }) {
		return
	}
	w.number++
	requested := slot(node, w.number)
	requested.Name += rapid.SampledFrom([]string{"", fmt.Sprint("-", w.number)}).Draw(t, "unique name")
	w.sets[owner].Slots = append(w.sets[owner].Slots, requested)
	w.send(t, owner)
}

func (w *slotWorld) withdraw(t *rapid.T) {
	owner := rapid.SampledFrom(w.running).Draw(t, "who")
	waiting := slices.DeleteFunc(slices.Clone(w.sets[owner].Slots), func(s scheduling.Slot) bool { return s.Granted })
	if len(waiting) > 0 {
		withdrawn := rapid.SampledFrom(waiting).Draw(t, "request")
		w.unlist(owner, withdrawn.Number)
		delete(w.held[owner], withdrawn.Node) // a grant that has not arrived
		w.send(t, owner)
	}
}

func (w *slotWorld) returnNode(t *rapid.T) {
	owner, slot, any := w.one(t)
	if !any {
		return
	}
	delete(w.held[owner], slot.Node)
	leftOut := rapid.Bool().Draw(t, "left out")
	if leftOut && !w.gone[slot.Node] {
		w.down[slot.Node] = true
	}
	if slices.Contains(w.closed, owner) || rapid.Bool().Draw(t, "the maintenance returns the slot") {
		w.returned[owner][slot.Node] = slot
		w.state.Return(scheduling.HeldSlot{Owner: owner, Number: slot.Number}.Return(leftOut), w.now)
		w.decide(t)
	} else {
		w.unlist(owner, slot.Number)
		w.send(t, owner, scheduling.Release{Number: slot.Number, LeftOut: leftOut})
	}
	if !w.blind {
		w.show(slot.Node)
	}
}

// learn lets an owner learn which of its slots were returned.
func (w *slotWorld) learn(t *rapid.T, owner scheduling.SlotOwner) {
	for _, slot := range w.returned[owner] {
		w.unlist(owner, slot.Number)
	}
	clear(w.returned[owner])
	w.send(t, owner)
}

func (w *slotWorld) leaveUnclean(t *rapid.T) {
	owner, slot, any := w.one(t)
	if !any || slices.Contains(w.closed, owner) {
		return
	}
	w.endUnclean(owner, slot)
	if !w.gone[slot.Node] && !w.blind && rapid.Bool().Draw(t, "its mark is listed") {
		w.marked[slot.Node] = w.ending[slot.Node].maintenance
		w.show(slot.Node)
	}
	w.unlist(owner, slot.Number)
	w.send(t, owner, scheduling.Release{Number: slot.Number, Unclean: true, LeftOut: rapid.Bool().Draw(t, "left out")})
}

// closeOwner closes the workflow of an owner, and starts another one with its id. Its maintenances continue or end.
func (w *slotWorld) closeOwner(t *rapid.T) {
	owner := rapid.SampledFrom(slices.Concat(w.running, w.closed)).Draw(t, "who")
	if i := slices.Index(w.running, owner); i >= 0 {
		w.number++
		w.running, w.closed = slices.Delete(w.running, i, i+1), append(w.closed, owner)
		w.start(scheduling.SlotOwner{WorkflowID: owner.WorkflowID, FirstRunID: fmt.Sprint("run-", w.number)})
	}
	closed := scheduling.Holder{SlotOwner: owner}
	for _, node := range slices.Sorted(maps.Keys(w.held[owner])) {
		slot := w.held[owner][node]
		if w.known(owner, slot) && rapid.Bool().Draw(t, "continues") {
			closed.Maintenances = append(closed.Maintenances, w.sets[owner].Maintenances+slot.Name)
		} else {
			w.endUnclean(owner, slot)
		}
	}
	for range rapid.IntRange(1, 2).Draw(t, "times") {
		w.state.OwnerClosed(closed, w.now)
	}
	w.decide(t)
}

func (w *slotWorld) changeNode(t *rapid.T) {
	node := rapid.SampledFrom(w.nodes).Draw(t, "node")
	if w.blind || w.heldByClosed(node) {
		return
	}
	delete(w.down, node)
	delete(w.gone, node)
	switch rapid.SampledFrom([]string{"gone", "down", "well"}).Draw(t, "status") {
	case "gone":
		w.gone[node] = true
		delete(w.marked, node)
	case "down":
		w.down[node] = true
	}
	w.show(node)
	w.decide(t)
}

// heldByClosed: a scheduler that has started since may know the node only by its mark.
func (w *slotWorld) heldByClosed(node string) bool {
	return slices.ContainsFunc(w.closed, func(owner scheduling.SlotOwner) bool { return w.held[owner][node].Number > 0 })
}

// terminateScheduler starts a scheduler without state, which gets the sets of all owners. By then the last writes have happened, and the nodes of maintenances without
// an owner have their marks.
func (w *slotWorld) terminateScheduler(t *rapid.T) {
	w.now = w.now.Add(scheduling.UncleanPause)
	for _, owner := range w.closed {
		for node, slot := range w.held[owner] {
			if w.gone[node] {
				return
			}
			w.marked[node] = w.sets[owner].Maintenances + slot.Name
		}
	}
	w.state, w.lateSets = scheduling.SlotState{}, nil
	for _, owner := range w.running {
		maps.DeleteFunc(w.held[owner], func(_ string, slot scheduling.Slot) bool { return !w.known(owner, slot) })
		w.sets[owner].Version++
		w.state.Receive(*w.sets[owner], w.now)
	}
	w.relist()
	w.decide(t)
	for _, owner := range w.running {
		w.learn(t, owner) // an owner sends its set when it learns of a return to another scheduler
	}
}

func (w *slotWorld) actions() map[string]func(*rapid.T) {
	drawNode := func(t *rapid.T) string { return rapid.SampledFrom(w.nodes).Draw(t, "node") }
	return map[string]func(*rapid.T){
		"":                        func(t *rapid.T) { w.out(t) },
		"request":                 w.request,
		"withdraw":                w.withdraw,
		"return a node":           w.returnNode,
		"learn":                   func(t *rapid.T) { w.learn(t, rapid.SampledFrom(w.running).Draw(t, "who")) },
		"resend":                  func(t *rapid.T) { w.send(t, rapid.SampledFrom(w.running).Draw(t, "who")) },
		"leave a node unclean":    w.leaveUnclean,
		"close an owner":          w.closeOwner,
		"change a node":           w.changeNode,
		"terminate the scheduler": w.terminateScheduler,
		"late set": func(t *rapid.T) {
			if len(w.lateSets) == 0 {
				return
			}
			late := rapid.SampledFrom(w.lateSets).Draw(t, "set")
			known := slices.ContainsFunc(w.state.Requesters, func(r *scheduling.Requester) bool { return r.Owner == late.Owner && !r.Closed })
			if known { // the scheduler accepts a late set of a forgotten owner, which answers with its latest one
				w.state.Receive(late, w.now)
				w.decide(t)
			}
		},
		"mark": func(t *rapid.T) { // the last write of a maintenance that has ended
			node := drawNode(t)
			if w.ending[node].until.After(w.now) && !w.gone[node] && !w.blind {
				w.marked[node] = w.ending[node].maintenance
				w.show(node)
				w.decide(t)
			}
		},
		"sweep": func(t *rapid.T) {
			node := drawNode(t)
			if !w.ending[node].until.After(w.now) && !w.blind && !w.heldByClosed(node) {
				delete(w.marked, node)
				w.show(node)
				w.decide(t)
			}
		},
		"look for missing nodes": func(t *rapid.T) {
			missing := w.state.Decide(w.now, nil)
			for _, response := range missing.Responses {
				w.state.Undelivered(response, w.now)
			}
			w.state.NodesGone(slices.DeleteFunc(missing.Missing(), func(node string) bool { return !w.gone[node] }))
			w.decide(t)
		},
		"time passes": func(t *rapid.T) {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "seconds")) * time.Second)
			w.decide(t)
		},
		"continue as new": func(t *rapid.T) {
			w.state.ForgetNodes()
			w.state, w.blind = roundTrip(t, w.state), true
			w.decide(t)
		},
		"watch again": func(t *rapid.T) {
			w.relist()
			w.decide(t)
		},
	}
}

func TestNoSlotIsLostAndNoneIsGrantedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newSlotWorld(t)
		t.Repeat(w.actions())

		// When all nodes are available and every slot is returned, every request is granted.
		w.reliable = true
		for _, owner := range w.closed {
			for _, slot := range w.held[owner] {
				w.state.Return(scheduling.HeldSlot{Owner: owner, Number: slot.Number}.Return(false), w.now)
			}
			clear(w.held[owner])
		}
		clear(w.gone)
		clear(w.down)
		clear(w.marked)
		for range 3 * len(w.nodes) {
			w.now = w.now.Add(time.Minute)
			w.relist()
			w.decide(t)
			for _, owner := range w.running {
				for _, node := range slices.Sorted(maps.Keys(w.held[owner])) {
					w.state.Return(scheduling.HeldSlot{Owner: owner, Number: w.held[owner][node].Number}.Return(false), w.now)
					w.returned[owner][node] = w.held[owner][node]
					delete(w.held[owner], node)
				}
			}
			for _, owner := range w.running {
				w.learn(t, owner)
			}
		}
		for _, owner := range w.running {
			w.learn(t, owner)
			require.Empty(t, w.sets[owner].Slots, "every request of %s was granted", owner)
		}
		require.True(t, w.state.Empty())
	})
}
