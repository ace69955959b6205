package v1alpha1

// Notification is a receiver of notifications about a piece of work.
type Notification struct {
	// URL of the receiver.
	// +kubebuilder:validation:Pattern=`^https?://.+`
	URL string `json:"url"`
	// Format of the notifications.
	// +kubebuilder:default=CloudEvents
	// +optional
	Format NotificationFormat `json:"format,omitempty"`
	// Events of which it is notified. Absent: all.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Events []NotificationEvent `json:"events,omitempty"`
	// BlockedAfter is how long a wait lasts before it counts as Blocked.
	// +kubebuilder:default="30m"
	// +optional
	BlockedAfter Duration `json:"blockedAfter,omitempty"`
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
