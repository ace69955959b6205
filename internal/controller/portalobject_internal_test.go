package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/manifest"
)

func shop(change func(*sreportalv1.Component)) *sreportalv1.Component {
	component := &sreportalv1.Component{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "shop", UID: "1", Generation: 2, Labels: map[string]string{sreportalv1.LabelPortal: "main"}},
		Spec:       sreportalv1.ComponentSpec{DisplayName: "Shop", Group: "Customers", PortalRef: "main"},
		Status: sreportalv1.ComponentStatus{
			ObservedGeneration: 2, PortalRun: "r1", Conditions: []metav1.Condition{{Type: sreportalv1.ConditionReady, Status: metav1.ConditionTrue}},
		},
	}
	change(component)
	return component
}

func TestAnObjectIsSentToItsPortalUnlessThatShowsIt(t *testing.T) {
	of := newComponents(nil, Options{})
	running := run{running: true, firstRunID: "r1"}
	require.True(t, of.shows(shop(func(*sreportalv1.Component) {}), running))
	for name, change := range map[string]func(*sreportalv1.Component){
		"edited":     func(c *sreportalv1.Component) { c.Generation = 3 },
		"moved":      func(c *sreportalv1.Component) { c.Spec.PortalRef = "other" },
		"not shown":  func(c *sreportalv1.Component) { c.Status.Conditions[0].Status = metav1.ConditionFalse },
		"terminated": func(c *sreportalv1.Component) { c.Status.PortalRun = "r0" },
	} {
		require.False(t, of.shows(shop(change), running), name)
	}
	require.False(t, of.shows(shop(func(*sreportalv1.Component) {}), run{firstRunID: "r1"}), "ended")
}

func TestOnlyMetadataThatTheControllerWritesIsIgnored(t *testing.T) {
	changes := newComponents(nil, Options{}).changes()
	before := shop(func(*sreportalv1.Component) {})
	for name, tt := range map[string]struct {
		change func(*sreportalv1.Component)
		seen   bool
	}{
		"finalizer": {func(c *sreportalv1.Component) { c.Finalizers = []string{"drydock.dev/cleanup"} }, false},
		"spec":      {func(c *sreportalv1.Component) { c.Generation++ }, true},
		"replaced":  {func(c *sreportalv1.Component) { c.UID = "2" }, true},
		"deleted":   {func(c *sreportalv1.Component) { c.DeletionTimestamp = new(metav1.Now()) }, true},
		"condition": {func(c *sreportalv1.Component) { c.Status.Conditions[0].Status = metav1.ConditionFalse }, true},
	} {
		require.Equal(t, tt.seen, changes.Update(event.TypedUpdateEvent[*sreportalv1.Component]{ObjectOld: before, ObjectNew: shop(tt.change)}), name)
	}
}

func TestAnInvalidScheduleHasItsOwnReason(t *testing.T) {
	maintenance := &sreportalv1.Maintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "switches", UID: "1", Generation: 2},
		Spec: sreportalv1.MaintenanceSpec{
			Title: "New switches", PortalRef: "main", ScheduledStart: metav1.NewTime(time.Unix(7200, 0)), ScheduledEnd: metav1.NewTime(time.Unix(3600, 0)),
		},
	}
	require.Equal(t, reasonInvalidSchedule, invalidReason(manifest.Complete(maintenance)))
	maintenance.Spec.ScheduledEnd, maintenance.Spec.PortalRef = metav1.NewTime(time.Unix(10800, 0)), "Main portal"
	require.Equal(t, reasonInvalidSpec, invalidReason(manifest.Complete(maintenance)))
	maintenance.Spec.PortalRef = "main"
	require.NoError(t, manifest.Complete(maintenance))
	declared := newMaintenances(nil, Options{}).declare(maintenance).Maintenance
	require.Equal(t, int64(2), declared.Generation)
	require.EqualValues(t, "1", declared.UID)
	require.Equal(t, sreportalv1.StatusMaintenance, declared.Spec.AffectedStatus)
}
