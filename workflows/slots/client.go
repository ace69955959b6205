package slots

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scheduleractivities "drydock.dev/drydock/activities/scheduler"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// resendAfter is after how long an owner that waits for a slot sends its requests again. Only a termination of the scheduler loses a request that was sent. The
// sweeper restarts it within ten minutes, and a new scheduler asks all owners. Thousands of owners that wait must not keep it busy.
const resendAfter = time.Hour

// Client requests slots from the scheduler of a cluster and records the grants. After each change it sends the whole set of its requests and slots. The
// scheduler answers with the whole set of grants. See docs/adr/0020-level-triggered-slots.md.
type Client struct {
	cluster              string
	namespace, requestor string
	Owner                scheduling.SlotOwner
	State                ClientState
	// Trouble is why the scheduler cannot be reached. Wait is why the first request waits.
	Trouble, Wait *drydockv1.Wait
	// nodesGone are requests that ended because their nodes do not exist.
	nodesGone []scheduling.Slot
	// changed is called after a response.
	changed func()
	// unsent: the set has changed or must be sent again. sending: a message is in progress. lent: an activity of the owner delivers the set, and meanwhile it is
	// only sent to a scheduler that has asked: it grants nothing before all owners have answered.
	unsent, sending, lent, asked bool
	// resend is the timer for the next resend; nil: it is not set.
	resend workflow.Future
}

// ClientState is the state that a run carries to the next one.
type ClientState struct {
	// Slots are the requested and the granted slots, in the order of the requests. Number is the last used one.
	Slots  []ClientSlot `json:"slots,omitempty"`
	Number int64        `json:"number,omitempty"`
	// Version is that of the last sent set. Releases are not delivered yet.
	Version  int64                `json:"version,omitempty"`
	Releases []scheduling.Release `json:"releases,omitempty"`
	// Response is the number of the last response. Scheduler is the start time of the scheduler that sent it.
	Response  int64     `json:"response,omitempty"`
	Scheduler time.Time `json:"scheduler,omitzero"`
}

// ClientSlot is a requested or granted slot of an owner.
type ClientSlot struct {
	scheduling.Slot
	// GrantedBy is the start time of the scheduler that granted it.
	GrantedBy time.Time `json:"grantedBy,omitzero"`
}

// NewClient returns a client without slots. Run must run in a coroutine.
func NewClient(ctx workflow.Context, cluster, namespace, requestor string) *Client {
	info := workflow.GetInfo(ctx)
	owner := scheduling.SlotOwner{WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID}
	return &Client{cluster: cluster, namespace: namespace, requestor: requestor, Owner: owner}
}

// Listen handles the messages of the scheduler.
func (c *Client) Listen(ctx workflow.Context, changed func()) {
	c.changed = changed
	kit.OnSignal(ctx, temporal.SignalSlotResponse, "Which slots are granted, and why the other requests wait.", c.handleResponse)
	kit.OnSignal(ctx, temporal.SignalResync, "A scheduler that has just started asks for all requests and slots.", func(resync scheduling.Resync) {
		if c.accepts(resync.Scheduler) {
			c.unsent, c.asked = true, true
			changed()
		}
	})
}

// accepts reports whether a message comes from the latest known scheduler, which is identified by its start time.
func (c *Client) accepts(scheduler time.Time) bool {
	if scheduler.After(c.State.Scheduler) {
		c.State.Scheduler, c.State.Response = scheduler, 0
	}
	return scheduler.Equal(c.State.Scheduler)
}

// handleResponse records the grants of the latest response. A slot that is missing there stays granted: only the owner releases it.
func (c *Client) handleResponse(response scheduling.SlotResponse) {
	if response.Owner != c.Owner || !c.accepts(response.Scheduler) || response.Number <= c.State.Response {
		return
	}
	c.State.Response, c.Wait = response.Number, response.Wait
	for _, number := range response.Granted {
		if slot := c.slotNumbered(number, response); slot != nil && !slot.Granted {
			slot.Granted, slot.GrantedBy = true, response.Scheduler
		}
	}
	for _, number := range response.NodesGone {
		if slot := c.slotNumbered(number, response); slot != nil && !slot.Granted {
			c.nodesGone = append(c.nodesGone, slot.Slot)
			c.remove(slot.Name)
			c.unsent = true
		}
	}
	c.changed()
}

// slotNumbered returns the slot with a number in a response, or nil. If the last set lists no such slot and the response answers that set, an older set
// has overtaken it: the set is sent again.
func (c *Client) slotNumbered(number int64, response scheduling.SlotResponse) *ClientSlot {
	for i := range c.State.Slots {
		if slot := &c.State.Slots[i]; slot.Number == number {
			return slot
		}
	}
	c.unsent = c.unsent || response.Version >= c.State.Version
	return nil
}

// PopNodesGone returns and forgets the requests that ended because their nodes do not exist.
func (c *Client) PopNodesGone() []scheduling.Slot {
	gone := c.nodesGone
	c.nodesGone = nil
	return gone
}

func (c *Client) find(name string) *ClientSlot {
	if i := slices.IndexFunc(c.State.Slots, func(s ClientSlot) bool { return s.Name == name }); i >= 0 {
		return &c.State.Slots[i]
	}
	return nil
}

// Request requests a slot for a node, unless it is requested or granted already. name is the name of the maintenance request.
func (c *Client) Request(name, node string, since time.Time) {
	if c.find(name) != nil {
		return
	}
	c.State.Number++
	slot := scheduling.Slot{Number: c.State.Number, Name: name, Node: node, Since: since}
	c.State.Slots = append(c.State.Slots, ClientSlot{Slot: slot})
	c.unsent = true
}

// Release releases a slot, or cancels the slot request. left describes the state of the node.
func (c *Client) Release(name string, left scheduling.Release) {
	slot := c.find(name)
	if slot == nil {
		return
	}
	left.Number = slot.Number
	if left.Unclean || left.LeftOut {
		c.State.Releases = append(c.State.Releases, left)
	}
	c.remove(name)
	c.unsent = true
}

// MarkReturned removes a slot that the maintenance of its node has returned to the scheduler. The next set confirms that to the scheduler.
func (c *Client) MarkReturned(name string) {
	slot := c.find(name)
	if slot == nil {
		return
	}
	// A scheduler that has started since may have missed the return.
	c.unsent = c.unsent || !slot.GrantedBy.Equal(c.State.Scheduler)
	c.remove(name)
}

// Held returns the slot for the maintenance that will return it; nil: there is no such slot.
func (c *Client) Held(name string) *scheduling.HeldSlot {
	slot := c.find(name)
	if slot == nil {
		return nil
	}
	return &scheduling.HeldSlot{Owner: c.Owner, Number: slot.Number}
}

func (c *Client) remove(name string) {
	c.State.Slots = slices.DeleteFunc(c.State.Slots, func(s ClientSlot) bool { return s.Name == name })
	if !c.AnyWaiting() {
		c.Wait = nil
	}
}

// Granted reports whether the request of that name has a slot.
func (c *Client) Granted(name string) bool {
	slot := c.find(name)
	return slot != nil && slot.Granted
}

// AnyWaiting reports whether a request waits for its grant.
func (c *Client) AnyWaiting() bool { return c.Waiting() > 0 }

// Waiting returns the number of requests that wait.
func (c *Client) Waiting() (count int) {
	for _, slot := range c.State.Slots {
		if !slot.Granted {
			count++
		}
	}
	return count
}

// Run sends the set after each change, one message at a time, until ctx is cancelled.
func (c *Client) Run(ctx workflow.Context) {
	for c.awaitUnsent(ctx) == nil {
		c.unsent, c.asked, c.sending = false, false, true
		c.send(ctx)
		c.sending = false
	}
}

// awaitUnsent waits until the set must be sent, after a change or as a resend.
func (c *Client) awaitUnsent(ctx workflow.Context) error {
	for {
		err := workflow.Await(ctx, func() bool {
			return (!c.lent || c.asked) && (c.unsent || c.AnyWaiting() && c.resend == nil || c.resend != nil && c.resend.IsReady())
		})
		switch {
		case err != nil || c.unsent:
			return err
		case c.resend == nil:
			// The timer keeps running after the wait. Often another wait follows, and a cancellation is an event, too.
			c.resend = workflow.NewTimerWithOptions(ctx, resendAfter, workflow.TimerOptions{Summary: "send the slot requests again"})
			continue
		}
		c.resend = nil
		if c.AnyWaiting() {
			return nil
		}
	}
}

// Lend returns the set for an activity that delivers it together with other work. Until TakeBack it is only sent to a scheduler that asks.
func (c *Client) Lend() scheduling.SlotRequests {
	c.unsent, c.lent = false, true
	return c.nextSet()
}

// TakeBack ends the loan of the set. One that was not delivered is sent.
func (c *Client) TakeBack(delivered bool) {
	c.unsent, c.lent = c.unsent || !delivered, false
}

// send sends the set to the scheduler.
func (c *Client) send(ctx workflow.Context) {
	set := c.nextSet()
	if c.deliver(ctx, set) == nil {
		c.State.Releases = c.State.Releases[len(set.Releases):]
	}
}

// nextSet returns the set with the next version.
func (c *Client) nextSet() scheduling.SlotRequests {
	c.State.Version++
	set := scheduling.SlotRequests{
		Owner: c.Owner, Version: c.State.Version, Namespace: c.namespace, Requestor: c.requestor,
		Maintenances: temporal.NodeMaintenanceID(c.cluster, c.namespace, ""), Releases: slices.Clone(c.State.Releases),
	}
	for _, slot := range c.State.Slots {
		set.Slots = append(set.Slots, slot.Slot)
	}
	return set
}

// deliver signals a running scheduler. If that fails, an activity signals the scheduler and starts it if necessary.
func (c *Client) deliver(ctx workflow.Context, set scheduling.SlotRequests) error {
	if !c.State.Scheduler.IsZero() {
		sent := workflow.SignalExternalWorkflow(ctx, temporal.MaintenanceSchedulerID(c.cluster), "", temporal.SignalSlotRequests, set)
		if sent.Get(ctx, nil) == nil {
			return nil
		}
	}
	hub := kit.HubRetrier(c.explain)
	var scheduler *scheduleractivities.Activities
	in := scheduleractivities.RequestSlotsInput{Cluster: c.cluster, Requests: set}
	return hub.Run(ctx, "request slots of "+c.cluster, scheduler.RequestSlots, in, nil)
}

func (c *Client) explain(ctx workflow.Context, reason, message string) {
	c.Trouble = nil
	if reason != "" {
		c.Trouble = &drydockv1.Wait{Reason: reason, Message: message, Since: metav1.NewTime(workflow.Now(ctx))}
	}
	c.changed()
}

// Settled reports whether the scheduler has the current set.
func (c *Client) Settled() bool { return !c.unsent && !c.sending && !c.lent }

// Settle waits until the scheduler has the current set.
func (c *Client) Settle(ctx workflow.Context) error {
	return workflow.Await(ctx, c.Settled)
}
