package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

func TestAnInformerTellsItsHandlersOfWhatChangedBetweenTwoLists(t *testing.T) {
	of := func(name, version string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
	}
	informer := newInformer(&toolscache.ListWatch{}, &corev1.Node{}, toolscache.Indexers{}, nil)
	var events []string
	handler := toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initial bool) {
			event := "add "
			if initial {
				event = "first "
			}
			events = append(events, event+object.(*corev1.Node).Name)
		},
		UpdateFunc: func(before, after any) {
			events = append(events, "update "+after.(*corev1.Node).Name+" from "+before.(*corev1.Node).ResourceVersion)
		},
		DeleteFunc: func(object any) {
			if missed, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object, events = missed.Obj, append(events, "missed")
			}
			events = append(events, "delete "+object.(*corev1.Node).Name)
		},
	}
	registered, err := informer.AddEventHandler(handler)
	require.NoError(t, err)
	take := func() []string {
		taken := events
		events = nil
		return taken
	}
	require.False(t, registered.HasSynced() || informer.HasSynced())
	require.NoError(t, informer.store.Replace([]any{of("a", "1"), of("b", "2")}, "2"))
	require.True(t, registered.HasSynced() && informer.HasSynced())
	require.Equal(t, []string{"first a", "first b"}, take())

	require.NoError(t, informer.store.Add(of("c", "3")))
	require.NoError(t, informer.store.Update(of("a", "4")))
	require.NoError(t, informer.store.Delete(of("b", "5")))
	require.Equal(t, []string{"add c", "update a from 1", "delete b"}, take())

	require.NoError(t, informer.store.Replace([]any{of("a", "4"), of("d", "7")}, "8"))
	require.Equal(t, []string{"add d", "missed", "delete c"}, take(), "a has not changed")
	require.ElementsMatch(t, []string{"a", "d"}, informer.GetStore().ListKeys())

	_, err = informer.AddEventHandler(handler)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"first a", "first d"}, take(), "a later handler gets all objects")
	require.NoError(t, informer.RemoveEventHandler(registered))
	require.NoError(t, informer.store.Delete(of("d", "9")))
	require.Equal(t, []string{"delete d"}, take())
}
