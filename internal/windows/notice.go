package windows

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/notify"
)

// Notice is the notification of a receiver about an event.
type Notice struct {
	// ID identifies the event and the receiver. It is the same for every attempt.
	ID  string `json:"id"`
	URL string `json:"url"`
	// Template of the text of an e-mail.
	Template *drydockv1.NotificationTemplate `json:"template,omitempty"`
	// Body is the JSON payload.
	Body NoticeBody `json:"body"`
}

// NoticeBody is the payload for a webhook.
type NoticeBody struct {
	Type EventKind `json:"type"`
	// At is the time of the event.
	At      time.Time  `json:"timestamp"`
	Window  string     `json:"window"`
	Title   string     `json:"title,omitempty"`
	Start   *time.Time `json:"start,omitempty"`
	End     *time.Time `json:"end,omitempty"`
	Lead    string     `json:"lead,omitempty"`
	By      string     `json:"by,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message"`
}

// Notices returns the notifications of an event of the window with that name.
func Notices(name string, spec drydockv1.MaintenanceWindowSpec, e Event) []Notice {
	var notices []Notice
	if !e.Notifies() {
		return nil
	}
	for _, receiver := range spec.Notify {
		if e.Receiver != "" && e.Receiver != receiver.URL {
			continue
		}
		body := NoticeBody{Type: e.Kind, At: e.At, Window: name, Title: spec.Title, Lead: e.Lead, By: e.By, Reason: e.Reason, Message: e.Message}
		if e.Opening != nil {
			body.Start, body.End = utc(e.Opening.Start), utc(e.Opening.End)
		}
		notices = append(notices, Notice{ID: name + "/" + occasion(e) + "/" + notify.Short(receiver.URL), URL: receiver.URL, Template: receiver.Template, Body: body})
	}
	return notices
}

// Text is the notification of an e-mail.
func (n Notice) Text() notify.Text {
	return notify.Render(n.Template, notify.Text{Title: "window " + n.Body.Window + ": " + eventWords[n.Body.Type], Body: n.Body.Message}, n.Body.templateData())
}

// eventWords are the events in the words of a title.
var eventWords = map[EventKind]string{
	EventUpcoming: "opens soon", EventStarted: "opened", EventCutoff: "starts no more work", EventEnded: "closed", EventMissed: "was missed",
	EventCancelled: "cancelled", EventExtended: "extended", EventCut: "ended early", EventOverridden: "overridden", EventOverrideEnded: "override ended",
}

// templateData is what a template has of a notification. docs/reference/maintenance-windows.md describes it.
type templateData struct {
	Type, Window, Title, Lead, By, Reason, Message string
	Time                                           notify.Instant
	Start, End                                     *notify.Instant
}

func (b NoticeBody) templateData() templateData {
	data := templateData{
		Type: string(b.Type), Window: b.Window, Title: b.Title, Lead: b.Lead, By: b.By, Reason: b.Reason, Message: b.Message, Time: notify.NewInstant(b.At),
	}
	if b.Start != nil && b.End != nil {
		data.Start, data.End = new(notify.NewInstant(*b.Start)), new(notify.NewInstant(*b.End))
	}
	return data
}

// checkReceivers returns the errors of receivers that a schema cannot express; at is their path.
func checkReceivers(at *field.Path, receivers []drydockv1.WindowNotification) field.ErrorList {
	var invalid field.ErrorList
	var samples []any
	for event := range eventWords {
		bare := NoticeBody{Type: event, Window: "namespace/name", Message: "message"}
		full := bare
		full.Title, full.Lead, full.By, full.Reason, full.Start, full.End = "title", "1h", "person", "reason", &time.Time{}, &time.Time{}
		samples = append(samples, bare.templateData(), full.templateData())
	}
	for i, receiver := range receivers {
		invalid = append(invalid, notify.CheckReceiver(at.Index(i), receiver.URL, receiver.Template, samples...)...)
	}
	return invalid
}

// occasion identifies an event among those of its window. Time causes each event of an opening once. People can cause an event repeatedly: an opening may be
// cancelled, and cancelled again after an edit of the window.
func occasion(e Event) string {
	when := e.At
	if e.Opening != nil {
		when = e.Opening.Start
	}
	text := when.UTC().Format("20060102T150405Z") + "/" + string(e.Kind) + e.Lead
	if e.Kind == EventCancelled && e.Opening != nil || e.Kind == EventExtended || e.Kind == EventCut || e.Kind == EventOverridden {
		text += fmt.Sprintf("-%d", e.At.UnixMicro())
	}
	return text
}
