// Package notify decides who is notified of what happens to a piece of work, and how a notification looks in each format. Every function is pure.
package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Fact is what has happened to a piece of work.
type Fact struct {
	Event drydockv1.NotificationEvent `json:"event"`
	// Kind and Name of the work, such as rollout and prod/november.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Reason is one word, such as TimedOut.
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	At      time.Time `json:"time"`
	// ResolvedAt is when a state ended, such as a wait for an approval; nil: it lasts, or it is no state.
	ResolvedAt *time.Time `json:"resolvedAt,omitempty"`
}

// Notice is a notification of a fact to one receiver.
type Notice struct {
	// ID identifies the fact and the receiver. It is the same for every attempt.
	ID  string `json:"id"`
	URL string `json:"url"`
	// Format of a webhook.
	Format   drydockv1.NotificationFormat    `json:"format,omitempty"`
	Template *drydockv1.NotificationTemplate `json:"template,omitempty"`
	Fact     Fact                            `json:"fact"`
}

// Wants reports whether a receiver is notified of an event.
func Wants(receiver drydockv1.Notification, event drydockv1.NotificationEvent) bool {
	return len(receiver.Events) == 0 || slices.Contains(receiver.Events, event)
}

// To returns the notice of a fact for a receiver. id identifies the fact.
func To(receiver drydockv1.Notification, id string, fact Fact) Notice {
	return Notice{ID: id + "/" + Short(receiver.URL), URL: receiver.URL, Format: receiver.Format, Template: receiver.Template, Fact: fact}
}

// BlockedAfter is how long a wait lasts before a receiver is notified of it.
func BlockedAfter(receiver drydockv1.Notification) time.Duration {
	const usual = 30 * time.Minute
	if after, written := receiver.BlockedAfter.Elapsed(); written {
		return after
	}
	return usual
}

// Short returns a short name of a URL, which may be long and contain secrets.
func Short(url string) string {
	sum := sha256.Sum256([]byte(url))
	return hex.EncodeToString(sum[:4])
}

// Payload returns the media type and the body of a notification for a webhook.
func (n Notice) Payload() (mediaType string, body []byte, err error) {
	const plainJSON = "application/json"
	switch n.Format {
	case drydockv1.FormatSlack:
		text := n.Fact.forSlack().text(n.Template)
		body, err = json.Marshal(map[string]string{"text": strings.Trim(text.Title+"\n"+text.Body, "\n")})
		return plainJSON, body, err
	case drydockv1.FormatAlertmanager:
		body, err = json.Marshal([]alert{n.Fact.alert()})
		return plainJSON, body, err
	}
	body, err = json.Marshal(cloudEvent{
		SpecVersion: "1.0", ID: n.ID, Source: "/" + n.Fact.Kind + "s/" + n.Fact.Name, Type: "dev.drydock." + n.Fact.Kind + "." + strings.ToLower(string(n.Fact.Event)),
		Subject: n.Fact.Name, Time: n.Fact.At.UTC(), ContentType: plainJSON, Data: n.Fact,
	})
	return "application/cloudevents+json", body, err
}

// cloudEvent is an event in the JSON format of CloudEvents 1.0, in structured mode.
type cloudEvent struct {
	SpecVersion string    `json:"specversion"`
	ID          string    `json:"id"`
	Source      string    `json:"source"`
	Type        string    `json:"type"`
	Subject     string    `json:"subject"`
	Time        time.Time `json:"time"`
	ContentType string    `json:"datacontenttype"`
	Data        Fact      `json:"data"`
}

// Text is the notification of an e-mail.
func (n Notice) Text() Text { return n.Fact.text(n.Template) }

// Text is the fact as a sentence.
func (f Fact) Text() string {
	if f.Message == "" {
		return f.title()
	}
	return f.title() + ": " + f.Message
}

func (f Fact) title() string {
	title := f.Kind + " " + f.Name + ": " + words[f.Event]
	if f.Reason != "" && f.Reason != string(f.Event) {
		title += " (" + f.Reason + ")"
	}
	return title
}

// text is the fact by a template; nil: the default.
func (f Fact) text(by *drydockv1.NotificationTemplate) Text {
	return Render(by, Text{Title: f.title(), Body: f.Message}, f.templateData())
}

// templateData is what a template has of a fact. docs/reference/notifications.md describes it.
type templateData struct {
	Event, Kind, Name, Reason, Message string
	Time                               Instant
}

func (f Fact) templateData() templateData {
	return templateData{Event: string(f.Event), Kind: f.Kind, Name: f.Name, Reason: f.Reason, Message: f.Message, Time: NewInstant(f.At)}
}

// CheckReceivers returns the errors of receivers that a schema cannot express; at is their path, and kind the kind of the work.
func CheckReceivers(at *field.Path, receivers []drydockv1.Notification, kind string) field.ErrorList {
	var invalid field.ErrorList
	var samples []any
	for event := range words {
		// A wait for an approval has no reason, and a start may have no message.
		samples = append(samples, Fact{Event: event, Kind: kind, Name: "namespace/name"}.templateData(),
			Fact{Event: event, Kind: kind, Name: "namespace/name", Reason: "Reason", Message: "message"}.templateData())
	}
	for i, receiver := range receivers {
		invalid = append(invalid, CheckReceiver(at.Index(i), receiver.URL, receiver.Template, samples...)...)
	}
	return invalid
}

// CheckReceiver returns the errors of a receiver at a path. The samples are data for its template.
func CheckReceiver(at *field.Path, url string, template *drydockv1.NotificationTemplate, samples ...any) field.ErrorList {
	var invalid field.ErrorList
	if IsEmail(url) {
		if _, err := Recipients(url); err != nil {
			invalid = append(invalid, field.Invalid(at.Child("url"), url, err.Error()))
		}
	}
	return append(invalid, CheckTemplate(at.Child("template"), template, samples...)...)
}

// words are the events in the words of a sentence.
var words = map[drydockv1.NotificationEvent]string{
	drydockv1.EventStarted: "started", drydockv1.EventWaitingForApproval: "waits for an approval", drydockv1.EventBlocked: "is blocked",
	drydockv1.EventReady: "is ready for its requestor", drydockv1.EventHeld: "is held", drydockv1.EventFailed: "failed", drydockv1.EventCompleted: "completed",
}

// forSlack escapes what Slack would take for markup. Templates may have markup.
func (f Fact) forSlack() Fact {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace
	f.Name, f.Reason, f.Message = escape(f.Name), escape(f.Reason), escape(f.Message)
	return f
}

// alert is an alert of Alertmanager's API. Its labels identify it.
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

// alertFor is how long an alert fires unless its state ends: without an end, Alertmanager resolves it after minutes.
const alertFor = 24 * time.Hour

func (f Fact) alert() alert {
	severity := "warning"
	if slices.Contains([]drydockv1.NotificationEvent{drydockv1.EventStarted, drydockv1.EventReady, drydockv1.EventCompleted}, f.Event) {
		severity = "info"
	}
	ends := f.At.Add(alertFor)
	if f.ResolvedAt != nil {
		ends = *f.ResolvedAt
	}
	return alert{
		Labels: map[string]string{
			"alertname": "Drydock" + strings.ToUpper(f.Kind[:1]) + f.Kind[1:] + string(f.Event), f.Kind: f.Name, "severity": severity, "service": "drydock",
		},
		Annotations: map[string]string{"summary": f.Text(), "reason": f.Reason, "description": f.Message},
		StartsAt:    f.At.UTC(), EndsAt: ends.UTC(),
	}
}

// String names the notice for people, without the URL.
func (n Notice) String() string { return fmt.Sprintf("notify: %s", n.Fact.Text()) }
