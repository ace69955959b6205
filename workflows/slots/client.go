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

// An owner that waits for a slot sends its requests again after resendFirst, then after twice as long, up to resendAtMost. That starts a scheduler that was
// terminated. It need not happen sooner: the sweeper starts the scheduler, too, within ten minutes, and a new scheduler asks all owners.
const resendFirst, resendAtMost = 30 * time.Second, time.Hour

// Client requests slots from the scheduler of a cluster, and knows which are granted. It sends the whole set of its requests and slots whenever that
// changes; the scheduler answers with the whole set of its grants. See docs/adr/0020-level-triggered-slots.md.
type Client struct {
	cluster              string
	namespace, requestor string
	Owner                scheduling.SlotOwner
	State                ClientState
	// Trouble is why the scheduler cannot be reached. wait is why the first request waits.
	Trouble, Wait *drydockv1.Wait
	// nodesGone are requests that ended because the cluster does not have their nodes.
	nodesGone []scheduling.Slot
	// changed is called after a response.
	changed func()
	// unsent: the scheduler has to get the set. sending: a set is on its way.
	unsent, sending bool
	// resend is the timer for the next resend; nil: it is not set. resendAfter is how long it takes.
	resend      workflow.Future
	resendAfter time.Duration
}

// ClientState is what a run hands to the next one.
type ClientState struct {
	// Slots are those that are requested or held, in the order of the requests. Number is the last that was used.
	Slots  []ClientSlot `json:"slots,omitempty"`
	Number int64        `json:"number,omitempty"`
	// Version of the last set that was sent. Releases were not delivered yet.
	Version  int64                `json:"version,omitempty"`
	Releases []scheduling.Release `json:"releases,omitempty"`
	// Response is the number of the last response; Scheduler is when the scheduler started that sent it.
	Response  int64     `json:"response,omitempty"`
	Scheduler time.Time `json:"scheduler,omitzero"`
}

// ClientSlot is a request, or a slot, as its owner knows it.
type ClientSlot struct {
	scheduling.Slot
	// GrantedBy is when the scheduler started that granted it.
	GrantedBy time.Time `json:"grantedBy,omitzero"`
}

func NewClient(ctx workflow.Context, cluster, namespace, requestor string) *Client {
	info := workflow.GetInfo(ctx)
	owner := scheduling.SlotOwner{WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID}
	return &Client{cluster: cluster, namespace: namespace, requestor: requestor, Owner: owner}
}

// Listen takes in what the scheduler sends.
func (c *Client) Listen(ctx workflow.Context, changed func()) {
	c.changed = changed
	kit.OnSignal(ctx, temporal.SignalSlotResponse, "Which slots are granted, and why the other requests wait.", c.takeResponse)
	kit.OnSignal(ctx, temporal.SignalResync, "A scheduler that has just started asks for all requests and slots.", func(resync scheduling.Resync) {
		if c.accepts(resync.Scheduler) {
			c.unsent = true
			changed()
		}
	})
}

// accepts reports whether a message of the scheduler that started then counts. It does not when a later scheduler was heard of.
func (c *Client) accepts(scheduler time.Time) bool {
	if scheduler.After(c.State.Scheduler) {
		c.State.Scheduler, c.State.Response = scheduler, 0
	}
	return scheduler.Equal(c.State.Scheduler)
}

// takeResponse takes over the grants of the latest response. A slot that is not among them stays granted: only the owner releases it.
func (c *Client) takeResponse(response scheduling.SlotResponse) {
	if response.Owner != c.Owner || !c.accepts(response.Scheduler) || response.Number <= c.State.Response {
		return
	}
	c.State.Response, c.Wait = response.Number, response.Wait
	for _, number := range response.Granted {
		if slot := c.numbered(number, response); slot != nil && !slot.Granted {
			slot.Granted, slot.GrantedBy = true, response.Scheduler
		}
	}
	for _, number := range response.NodesGone {
		if slot := c.numbered(number, response); slot != nil && !slot.Granted {
			c.nodesGone = append(c.nodesGone, slot.Slot)
			c.drop(slot.Name)
			c.unsent = true
		}
	}
	c.changed()
}

// numbered returns the slot of a response. If the last set does not list it although the scheduler has seen that, an older set has overtaken it: the
// set is sent again.
func (c *Client) numbered(number int64, response scheduling.SlotResponse) *ClientSlot {
	for i := range c.State.Slots {
		if slot := &c.State.Slots[i]; slot.Number == number {
			return slot
		}
	}
	c.unsent = c.unsent || response.Version >= c.State.Version
	return nil
}

// TakeNodesGone returns, once, the requests that ended because the cluster does not have their nodes.
func (c *Client) TakeNodesGone() []scheduling.Slot {
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

// Request requests a slot for a node, unless it is requested or granted already. name is that of the maintenance request.
func (c *Client) Request(name, node string, since time.Time) {
	if c.find(name) != nil {
		return
	}
	c.State.Number++
	slot := scheduling.Slot{Number: c.State.Number, Name: name, Node: node, Since: since}
	c.State.Slots = append(c.State.Slots, ClientSlot{Slot: slot})
	c.unsent = true
}

// Release releases a slot, or withdraws the request for it. left says how the node was left.
func (c *Client) Release(name string, left scheduling.Release) {
	slot := c.find(name)
	if slot == nil {
		return
	}
	left.Number = slot.Number
	if left.Unclean || left.LeftOut {
		c.State.Releases = append(c.State.Releases, left)
	}
	c.drop(name)
	c.unsent = true
}

// Returned drops a slot that the maintenance of its node has returned to the scheduler. The scheduler learns with the next set that the owner knows.
func (c *Client) Returned(name string) {
	slot := c.find(name)
	if slot == nil {
		return
	}
	// A scheduler that has started since may not have heard of the return.
	c.unsent = c.unsent || !slot.GrantedBy.Equal(c.State.Scheduler)
	c.drop(name)
}

// Held names a slot to the maintenance that returns it; nil: there is no such slot.
func (c *Client) Held(name string) *scheduling.HeldSlot {
	slot := c.find(name)
	if slot == nil {
		return nil
	}
	return &scheduling.HeldSlot{Owner: c.Owner, Number: slot.Number}
}

func (c *Client) drop(name string) {
	c.State.Slots = slices.DeleteFunc(c.State.Slots, func(s ClientSlot) bool { return s.Name == name })
	if !c.Waits() {
		c.Wait = nil
	}
}

// Granted reports whether the request of that name has a slot.
func (c *Client) Granted(name string) bool {
	slot := c.find(name)
	return slot != nil && slot.Granted
}

// Waits reports whether a request waits.
func (c *Client) Waits() bool { return c.Waiting() > 0 }

// Waiting is how many requests wait.
func (c *Client) Waiting() (count int) {
	for _, slot := range c.State.Slots {
		if !slot.Granted {
			count++
		}
	}
	return count
}

// Run sends the set whenever that has changed, one message after the other, until ctx is cancelled.
func (c *Client) Run(ctx workflow.Context) {
	for c.awaitUnsent(ctx) == nil {
		c.unsent, c.sending = false, true
		c.send(ctx)
		c.sending = false
	}
}

// awaitUnsent waits until the set has to be sent, because it has changed or as a resend.
func (c *Client) awaitUnsent(ctx workflow.Context) error {
	for {
		err := workflow.Await(ctx, func() bool {
			return c.unsent || c.Waits() && c.resend == nil || c.resend != nil && c.resend.IsReady()
		})
		switch {
		case err != nil || c.unsent:
			return err
		case c.resend == nil:
			// The timer continues when the wait is over: often another wait follows, and to cancel it costs as much.
			c.resendAfter = min(max(2*c.resendAfter, resendFirst), resendAtMost)
			c.resend = workflow.NewTimerWithOptions(ctx, c.resendAfter, workflow.TimerOptions{Summary: "send the slot requests again"})
			continue
		}
		c.resend = nil
		if c.Waits() {
			return nil
		}
		c.resendAfter = 0
	}
}

// send sends the set to the scheduler. An activity does that, and starts the scheduler, unless the scheduler is known to run.
func (c *Client) send(ctx workflow.Context) {
	c.State.Version++
	set := scheduling.SlotRequests{
		Owner: c.Owner, Version: c.State.Version, Namespace: c.namespace, Requestor: c.requestor,
		Maintenances: temporal.NodeMaintenanceID(c.cluster, c.namespace, ""), Releases: slices.Clone(c.State.Releases),
	}
	for _, slot := range c.State.Slots {
		set.Slots = append(set.Slots, slot.Slot)
	}
	if c.deliver(ctx, set) == nil {
		c.State.Releases = c.State.Releases[len(set.Releases):]
	}
}

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

// Settled reports whether the scheduler has got the set.
func (c *Client) Settled() bool { return !c.unsent && !c.sending }

// Settle waits until the scheduler has got the set.
func (c *Client) Settle(ctx workflow.Context) error {
	return workflow.Await(ctx, c.Settled)
}
