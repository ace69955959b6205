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

// office is a desk with all that goes on around it: askers that begin and end, maintenances that return their nodes or leave them as they are, and
// nodes that come and go. It knows of each node whether it is out of service, whatever the book believes.
type office struct {
	*desk
	nodes                 []string
	parallel, unavailable int
	number                int64
	// live are the askers that go on, over those that have ended and whose maintenances may go on.
	live, over []scheduling.Asker
	// asked and held are the requests of askers that wait and that have a slot, by node.
	asked, held map[scheduling.Asker]map[string]scheduling.Slot
	// unheard are slots that were given back by those who worked on their nodes, and their askers do not know it yet.
	unheard map[scheduling.Asker][]scheduling.Slot
	// ending are nodes whose maintenance ended without returning them: until then its last effect may come. marked are those that it left marked.
	ending map[string]ending
	marked map[string]string
	// gone are the nodes that do not exist, down those that are unavailable.
	gone, down map[string]bool
	// watch is when the present watch began; blind: it has not shown anything yet.
	watch time.Time
	blind bool
}

// ending is a maintenance that has ended without returning its node, and when nothing more can come of it.
type ending struct {
	maintenance string
	until       time.Time
}

func newOffice(t *rapid.T) *office {
	o := &office{
		desk: &desk{now: noon}, nodes: []string{"a", "b", "c", "d", "e"},
		parallel: rapid.IntRange(1, 3).Draw(t, "parallel"), unavailable: rapid.IntRange(1, 5).Draw(t, "unavailable"),
		live:  []scheduling.Asker{asker("june"), asker("july")},
		asked: map[scheduling.Asker]map[string]scheduling.Slot{}, held: map[scheduling.Asker]map[string]scheduling.Slot{},
		unheard: map[scheduling.Asker][]scheduling.Slot{},
		ending:  map[string]ending{}, marked: map[string]string{}, gone: map[string]bool{}, down: map[string]bool{}, watch: noon,
	}
	for _, who := range o.live {
		o.asked[who], o.held[who] = map[string]scheduling.Slot{}, map[string]scheduling.Slot{}
	}
	o.watchAnew()
	return o
}

func (o *office) seen(node string) scheduling.SeenNode {
	return scheduling.SeenNode{Node: scheduling.Node{Name: node, Unavailable: o.down[node]}, Maintenance: o.marked[node]}
}

// watchAnew shows all nodes, as another watch.
func (o *office) watchAnew() {
	o.watch, o.blind = o.watch.Add(time.Second), false
	config := parallelOperations(o.parallel)
	config.MaxUnavailable = new(intstr.FromInt(o.unavailable))
	o.book.See(scheduling.Sight{From: o.watch, First: true, Config: config})
	for _, node := range o.nodes {
		if !o.gone[node] {
			o.book.See(scheduling.Sight{From: o.watch, Nodes: []scheduling.SeenNode{o.seen(node)}})
		}
	}
	o.book.See(scheduling.Sight{From: o.watch, Last: true})
}

// show shows how a node is now.
func (o *office) show(node string) {
	sight := scheduling.Sight{From: o.watch, Gone: []string{node}}
	if !o.gone[node] {
		sight = scheduling.Sight{From: o.watch, Nodes: []scheduling.SeenNode{o.seen(node)}}
	}
	o.book.See(sight)
}

// out are the nodes that are out of service for maintenance, or may be.
func (o *office) out(t *rapid.T) map[string]bool {
	out := map[string]bool{}
	for _, slots := range o.held {
		for node := range slots {
			require.False(t, out[node], "one maintenance a node: %s", node)
			out[node] = true
		}
	}
	for node, ending := range o.ending {
		if ending.until.After(o.now) {
			require.False(t, out[node] && o.marked[node] == "", "%s is granted while the last effect of the maintenance before may come", node)
			out[node] = true
		}
	}
	for node := range o.marked {
		out[node] = true
	}
	return out
}

// listen takes in what the askers are told, and holds each grant against the limits.
func (o *office) listen(t *rapid.T) {
	for _, turn := range o.told {
		for _, grant := range turn.Granted {
			node := grant.Name[len("on-"):]
			if o.held[turn.Asker][node].Number == grant.Number {
				continue // it has been told before
			}
			slot, asked := o.asked[turn.Asker][node]
			require.True(t, asked && slot.Number == grant.Number, "%s is granted what it does not ask for: %v", turn.Asker, grant)
			require.False(t, o.gone[node] || o.blind, "%s is granted and nobody sees it", node)
			out := o.out(t)
			require.False(t, out[node], "%s is granted and is out of service", node)
			delete(o.asked[turn.Asker], node)
			o.held[turn.Asker][node] = slot
			unavailable := maps.Clone(out)
			maps.Copy(unavailable, o.down)
			require.Less(t, len(out), o.parallel, "before %s is granted", node)
			require.True(t, o.down[node] || len(unavailable) < o.unavailable, "before %s is granted, unavailable are %v", node, unavailable)
		}
		for _, over := range turn.Gone {
			delete(o.asked[turn.Asker], over.Name[len("on-"):])
		}
	}
	o.told = nil
	for _, who := range o.live { // one that waits for nothing says nothing
		if len(o.asked[who])+len(o.held[who]) == 0 {
			delete(o.unheard, who)
		}
	}
	require.LessOrEqual(t, len(o.out(t)), o.parallel)
}

// one draws one of all slots that somebody has, if there are any.
func (o *office) one(t *rapid.T) (who scheduling.Asker, slot scheduling.Slot, any bool) {
	type holding struct {
		who  scheduling.Asker
		slot scheduling.Slot
	}
	var all []holding
	for _, who := range slices.Concat(o.live, o.over) {
		for _, node := range slices.Sorted(maps.Keys(o.held[who])) {
			all = append(all, holding{who, o.held[who][node]})
		}
	}
	if len(all) == 0 {
		return
	}
	drawn := rapid.SampledFrom(all).Draw(t, "slot")
	return drawn.who, drawn.slot, true
}

func (o *office) giveBack(who scheduling.Asker, release scheduling.Release) {
	o.book.Take(scheduling.Call{Asker: who, Released: []scheduling.Release{release}}, o.now)
	o.decide()
}

// ends takes in that a maintenance has ended and nobody knows how it left its node.
func (o *office) ends(slot scheduling.Slot) {
	o.ending[slot.Node] = ending{slot.Maintenance, o.now.Add(scheduling.UncleanPause)}
}

func (o *office) actions() map[string]func(*rapid.T) {
	drawNode := func(t *rapid.T) string { return rapid.SampledFrom(o.nodes).Draw(t, "node") }
	return map[string]func(*rapid.T){
		"": o.listen,
		"ask": func(t *rapid.T) {
			who, node := rapid.SampledFrom(o.live).Draw(t, "who"), drawNode(t)
			if o.asked[who][node].Number > 0 || o.held[who][node].Number > 0 {
				return
			}
			o.number++
			asked := slot(node, o.number)
			asked.Maintenance += rapid.SampledFrom([]string{"", fmt.Sprint("-", o.number)}).Draw(t, "a name of its own")
			o.asked[who][node] = asked
			for range rapid.IntRange(1, 2).Draw(t, "times") {
				o.book.Take(scheduling.Call{Asker: who, Slots: []scheduling.Slot{asked}}, o.now)
			}
			o.decide()
		},
		"return": func(t *rapid.T) {
			who, slot, any := o.one(t)
			if !any {
				return
			}
			delete(o.held[who], slot.Node)
			release := returned(slot.Node, slot.Number)
			if release.LeftOut = rapid.Bool().Draw(t, "left out"); release.LeftOut && !o.gone[slot.Node] {
				o.down[slot.Node] = true
			}
			if release.Unheard = rapid.Bool().Draw(t, "its asker does not hear it yet"); release.Unheard {
				o.unheard[who] = append(o.unheard[who], slot)
			}
			o.giveBack(who, release)
			if !o.blind {
				o.show(slot.Node)
			}
		},
		"late account": func(t *rapid.T) {
			who := rapid.SampledFrom(o.live).Draw(t, "who")
			account := scheduling.Call{Asker: who, All: true}
			for _, slot := range o.unheard[who] {
				if o.asked[who][slot.Node].Number == 0 && o.held[who][slot.Node].Number == 0 {
					slot.Granted = true
					account.Slots = append(account.Slots, slot)
				}
			}
			for _, node := range slices.Sorted(maps.Keys(o.held[who])) {
				slot := o.held[who][node]
				slot.Granted = true
				account.Slots = append(account.Slots, slot)
			}
			for _, node := range slices.Sorted(maps.Keys(o.asked[who])) {
				account.Slots = append(account.Slots, o.asked[who][node])
			}
			o.book.Take(account, o.now)
			o.decide()
		},
		"hear": func(t *rapid.T) {
			who := rapid.SampledFrom(o.live).Draw(t, "who")
			heard := scheduling.Call{Asker: who}
			for _, slot := range o.unheard[who] {
				heard.Released = append(heard.Released, returned(slot.Node, slot.Number))
			}
			delete(o.unheard, who)
			o.book.Take(heard, o.now)
			o.decide()
		},
		"end unclean": func(t *rapid.T) {
			who, slot, any := o.one(t)
			if !any {
				return
			}
			delete(o.held[who], slot.Node)
			o.ends(slot)
			if !o.gone[slot.Node] && !o.blind && rapid.Bool().Draw(t, "its mark is seen") {
				o.marked[slot.Node] = slot.Maintenance
				o.show(slot.Node)
			}
			release := returned(slot.Node, slot.Number)
			release.Unclean, release.LeftOut = true, rapid.Bool().Draw(t, "left out")
			o.giveBack(who, release)
		},
		"be lost": func(t *rapid.T) {
			who := rapid.SampledFrom(slices.Concat(o.live, o.over)).Draw(t, "who")
			if i := slices.Index(o.live, who); i >= 0 {
				o.number++
				successor := scheduling.Asker{WorkflowID: who.WorkflowID, FirstRunID: fmt.Sprint("run-", o.number)}
				o.live[i], o.over = successor, append(o.over, who)
				o.asked[successor], o.held[successor] = map[string]scheduling.Slot{}, map[string]scheduling.Slot{}
				clear(o.asked[who])
			}
			over := scheduling.Holder{Asker: who}
			for _, node := range slices.Sorted(maps.Keys(o.held[who])) {
				slot := o.held[who][node]
				if rapid.Bool().Draw(t, "goes on") {
					over.Maintenances = append(over.Maintenances, slot.Maintenance)
				} else {
					delete(o.held[who], node)
					o.ends(slot)
				}
			}
			for range rapid.IntRange(1, 2).Draw(t, "times") {
				o.book.Lose(over, o.now)
			}
			o.decide()
		},
		"mark": func(t *rapid.T) { // the last effect of a maintenance that has ended
			node := drawNode(t)
			if !o.ending[node].until.After(o.now) || o.gone[node] || o.blind {
				return
			}
			o.marked[node] = o.ending[node].maintenance
			o.show(node)
			o.decide()
		},
		"sweep": func(t *rapid.T) {
			node := drawNode(t)
			if o.ending[node].until.After(o.now) || o.blind {
				return
			}
			delete(o.marked, node)
			o.show(node)
			o.decide()
		},
		"change a node": func(t *rapid.T) {
			node := drawNode(t)
			if o.blind {
				return
			}
			delete(o.down, node)
			switch rapid.SampledFrom([]string{"gone", "down", "well"}).Draw(t, "state") {
			case "gone":
				o.gone[node] = true
				delete(o.marked, node)
			case "down":
				o.down[node] = true
				delete(o.gone, node)
			default:
				delete(o.gone, node)
			}
			o.show(node)
			o.decide()
		},
		"look for missing nodes": func(t *rapid.T) {
			var gone []string
			for _, node := range o.decision().Missing() {
				if o.gone[node] {
					gone = append(gone, node)
				}
			}
			o.book.Miss(gone)
			o.decide()
		},
		"time goes by": func(t *rapid.T) {
			o.now = o.now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "seconds")) * time.Second)
			o.decide()
		},
		"continue as new": func(t *rapid.T) {
			o.book.Forget()
			o.book, o.blind = roundTrip(t, o.book), true
			o.decide()
		},
		"watch anew": func(*rapid.T) {
			o.watchAnew()
			o.decide()
		},
	}
}

// decision decides, and keeps what is to be told.
func (o *office) decision() scheduling.Decision {
	outcome := o.book.Decide(o.now, nil)
	o.told = append(o.told, outcome.Turns...)
	return outcome.Decision
}

// Askers and nodes do anything, in any order and any number of times, and the book is carried over from run to run.
func TestSlotsAreNeitherLostNorDoubled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOffice(t)
		t.Repeat(o.actions())

		// When all nodes are well and everything is returned, whoever waits still gets its turn.
		clear(o.gone)
		clear(o.down)
		clear(o.marked)
		for range 3 * len(o.nodes) {
			o.now = o.now.Add(time.Minute)
			o.watchAnew()
			o.decide()
			o.listen(t)
			for who, slots := range o.held {
				for node, slot := range slots {
					o.giveBack(who, returned(node, slot.Number))
				}
				clear(slots)
			}
			o.listen(t)
		}
		require.Empty(t, o.book.Queue(o.now, nil), "everybody has had a turn")
		for who, asked := range o.asked {
			require.Empty(t, asked, who)
		}
	})
}
