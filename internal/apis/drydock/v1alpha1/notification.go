package v1alpha1

// Notification is a receiver of notifications about a piece of work.
// +kubebuilder:validation:XValidation:rule="!has(self.format) || !self.url.startsWith('mailto:')",fieldPath=".format",reason=FieldValueForbidden,message="e-mails have no format"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || self.url.startsWith('mailto:') || has(self.format) && self.format == 'Slack'",fieldPath=".template",reason=FieldValueForbidden,message="only e-mails and notifications with format Slack have a text"
type Notification struct {
	// URL of the receiver: of a webhook, or mailto: and the addresses of an e-mail, joined by commas.
	// +kubebuilder:validation:Pattern=`^(https?://|mailto:).+`
	URL string `json:"url"`
	// Format of the notifications of a webhook. Absent: CloudEvents.
	// +optional
	Format NotificationFormat `json:"format,omitempty"`
	// Template of the text of e-mails and of notifications with format Slack.
	// +optional
	Template *NotificationTemplate `json:"template,omitempty"`
	// Events of which it is notified. Absent: all.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Events []NotificationEvent `json:"events,omitempty"`
	// BlockedAfter is how long a wait lasts before it counts as Blocked.
	// +kubebuilder:default="30m"
	// +optional
	BlockedAfter Duration `json:"blockedAfter,omitempty"`
}

// NotificationTemplate has Go templates of the text that people read.
type NotificationTemplate struct {
	// Title is the subject of an e-mail, and the first line in a chat. Absent: what has happened.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Title string `json:"title,omitempty"`
	// Body is the text below the title. Absent: the message of the event.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Body string `json:"body,omitempty"`
}

// NotificationFormat is the format of the notifications for a receiver.
// +kubebuilder:validation:Enum=CloudEvents;Slack;Alertmanager
type NotificationFormat string

// The formats.
const (
	// FormatCloudEvents: the JSON format of https://cloudevents.io.
	FormatCloudEvents NotificationFormat = "CloudEvents"
	// FormatSlack: the message of an incoming webhook of Slack, which other chats accept, too.
	FormatSlack NotificationFormat = "Slack"
	// FormatAlertmanager: an alert for the API of Alertmanager. The URL ends with /api/v2/alerts.
	FormatAlertmanager NotificationFormat = "Alertmanager"
)

// NotificationEvent is what happens to a piece of work.
// +kubebuilder:validation:Enum=Started;WaitingForApproval;Ready;Blocked;Held;Failed;Completed
type NotificationEvent string

// The events.
const (
	EventStarted            NotificationEvent = "Started"
	EventWaitingForApproval NotificationEvent = "WaitingForApproval"
	// EventReady: the node is drained, and its requestor may work on it.
	EventReady NotificationEvent = "Ready"
	// EventBlocked: a wait has lasted for longer than blockedAfter. Waits that are part of a plan, such as the soak of a batch, do not count.
	EventBlocked NotificationEvent = "Blocked"
	// EventHeld: the emergency stop holds it.
	EventHeld NotificationEvent = "Held"
	// EventFailed: it has ended without success.
	EventFailed    NotificationEvent = "Failed"
	EventCompleted NotificationEvent = "Completed"
)
