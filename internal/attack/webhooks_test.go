package attack

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// openWindow is a window of mallory that is open. Its notifications go to these receivers.
func openWindow(name string, receivers ...string) *drydockv1.MaintenanceWindow {
	window := &drydockv1.MaintenanceWindow{ObjectMeta: metav1.ObjectMeta{Namespace: tenantNamespace, Name: name}}
	window.Spec.TimeZone, window.Spec.Duration = "UTC", "1h"
	window.Spec.Recurrence = "RDATE:" + time.Now().Add(-time.Minute).UTC().Format("20060102T150405Z")
	for _, receiver := range receivers {
		window.Spec.Notify = append(window.Spec.Notify, drydockv1.WindowNotification{URL: receiver})
	}
	return window
}

// A tenant who may define windows names receivers that only the worker reaches: the metadata of its machine, a private address behind the name of an allowed host, and
// one to which an allowed receiver redirects.
func tenantNamesReceivers(t *testing.T) {
	hub := asMallory(t, theFleet.Hub)
	refused := []string{
		"http://169.254.169.254/latest/meta-data", "https://[fe80::1]/", "https://10.0.0.1/", "http://localhost:8080/", "https://127.0.0.1.evil.example.com/",
		"https://127.0.0.1:443@evil.example.com/", "mailto:eve@example.com",
	}
	window := openWindow("refused", refused...)
	require.NoError(t, hub.Create(t.Context(), window))
	message := ""
	require.NoError(t, theFleet.Await(t.Context(), theFleet.Hub, "the window is answered", []client.Object{&drydockv1.MaintenanceWindow{}},
		func(ctx context.Context, reader client.Reader) (bool, error) {
			var current drydockv1.MaintenanceWindow
			err := reader.Get(ctx, client.ObjectKeyFromObject(window), &current)
			if ready := meta.FindStatusCondition(current.Status.Conditions, drydockv1.ConditionReady); ready != nil && ready.Status == metav1.ConditionFalse {
				message = ready.Message
			}
			return message != "", client.IgnoreNotFound(err)
		}))
	for i := range refused {
		require.Contains(t, message, fmt.Sprintf("spec.notify[%d].url: Forbidden", i))
	}

	private, reached := privateServer(t)
	redirecting := httptest.NewServer(http.RedirectHandler("http://"+private+"/", http.StatusTemporaryRedirect))
	t.Cleanup(redirecting.Close)
	require.NoError(t, hub.Create(t.Context(), openWindow("by-name", "https://"+strings.Replace(private, "127.0.0.1", "localhost", 1)+"/")))
	require.NoError(t, hub.Create(t.Context(), openWindow("redirected", redirecting.URL)))
	awaitNotDelivered(t, "by-name", "is not public")
	awaitNotDelivered(t, "redirected", "307 Temporary Redirect")
	require.Zero(t, reached.Load(), "the worker has connected to a private address")
}

// privateServer is a server on a loopback address that counts its connections.
func privateServer(t *testing.T) (address string, reached *atomic.Int32) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	reached = &atomic.Int32{}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			_ = connection.Close()
		}
	}()
	return listener.Addr().String(), reached
}

// awaitNotDelivered waits until the notification of a window of mallory has failed for this reason.
func awaitNotDelivered(t *testing.T, window, why string) {
	t.Helper()
	connected, last := theTemporal(t), ""
	query := fmt.Sprintf("WorkflowType = '%s' AND WorkflowId STARTS_WITH '%s'", temporal.WindowNotification, temporal.NotificationID(tenantNamespace+"/"+window+"/"))
	if !assert.Eventually(t, func() bool {
		list, err := connected.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
		if err != nil {
			last = err.Error()
			return false
		}
		for _, execution := range list.GetExecutions() {
			described, err := connected.DescribeWorkflowExecution(t.Context(), execution.GetExecution().GetWorkflowId(), "")
			if err != nil {
				last = err.Error()
			}
			for _, activity := range described.GetPendingActivities() {
				last = activity.GetLastFailure().GetMessage()
			}
		}
		return strings.Contains(last, why)
	}, limit, 200*time.Millisecond) {
		t.Fatalf("the notification of %s: %s", window, last)
	}
}
