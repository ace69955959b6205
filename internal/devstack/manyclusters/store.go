package manyclusters

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
)

// maxEvents is how many events of a cluster can be watched again. A watch from an earlier version must list again.
const maxEvents = 1000

// store has the objects of one cluster, and their latest events.
type store struct {
	mu sync.Mutex
	// version is that of the latest write.
	version uint64
	// objects are JSON, by resource.
	objects map[*resource]map[types.NamespacedName]json.RawMessage
	events  []event
	// changed is closed at the next event.
	changed chan struct{}
}

// event is one change of an object.
type event struct {
	version uint64
	of      *resource
	change  watch.EventType
	key     types.NamespacedName
	object  json.RawMessage
}

func newStore() *store {
	return &store{version: 1, objects: map[*resource]map[types.NamespacedName]json.RawMessage{}, changed: make(chan struct{})}
}

// list returns the objects of a resource in the order of their names, and the version of the list.
func (s *store) list(of *resource, namespace string) (objects []json.RawMessage, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(s.objects[of]), func(a, b types.NamespacedName) int {
		return strings.Compare(a.String(), b.String())
	})
	for _, key := range keys {
		if namespace == "" || key.Namespace == namespace {
			objects = append(objects, s.objects[of][key])
		}
	}
	return objects, s.version
}

func (s *store) get(of *resource, key types.NamespacedName) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.objects[of][key]
	if !ok {
		return nil, apierrors.NewNotFound(of.groupResource(), key.Name)
	}
	return found, nil
}

// since returns the events after a version, and a channel that is closed at the next one. gone: some of them are forgotten.
func (s *store) since(version uint64) (events []event, changed <-chan struct{}, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, _ := slices.BinarySearchFunc(s.events, version+1, func(e event, wanted uint64) int {
		return int(int64(e.version) - int64(wanted))
	})
	gone = first == 0 && len(s.events) == maxEvents && s.events[0].version > version+1
	return slices.Clone(s.events[first:]), s.changed, gone
}

// seed stores an object as it is, without an event.
func (s *store) seed(of *resource, key types.NamespacedName, object json.RawMessage) {
	if s.objects[of] == nil {
		s.objects[of] = map[types.NamespacedName]json.RawMessage{}
	}
	s.objects[of][key] = object
}

// create stores a new object.
func (s *store) create(of *resource, object *unstructured.Unstructured) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if object.GetName() == "" {
		object.SetName(object.GetGenerateName() + string(uuid.NewUUID())[:5])
	}
	key := keyOf(object)
	if _, exists := s.objects[of][key]; exists {
		return nil, apierrors.NewAlreadyExists(of.groupResource(), key.Name)
	}
	object.SetUID(uuid.NewUUID())
	object.SetCreationTimestamp(metav1.NewTime(time.Now()))
	object.SetGeneration(1)
	return s.write(of, key, watch.Added, object)
}

// update changes an object with a function, which gets it decoded. status: only its status changes, otherwise everything else.
func (s *store) update(of *resource, key types.NamespacedName, status bool, change func(before *unstructured.Unstructured) (*unstructured.Unstructured, error)) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, ok := s.objects[of][key]
	if !ok {
		return nil, apierrors.NewNotFound(of.groupResource(), key.Name)
	}
	before := decoded(stored)
	after, err := change(before.DeepCopy())
	if err != nil {
		return nil, err
	}
	if version := after.GetResourceVersion(); version != "" && version != before.GetResourceVersion() {
		return nil, apierrors.NewConflict(of.groupResource(), key.Name, fmt.Errorf("the object has been modified"))
	}
	if uid := after.GetUID(); uid != "" && uid != before.GetUID() {
		return nil, apierrors.NewConflict(of.groupResource(), key.Name, fmt.Errorf("its UID is %s", before.GetUID()))
	}
	switch {
	case status:
		merged := before.DeepCopy()
		merged.Object["status"] = after.Object["status"]
		after = merged
	case of.status:
		if after.Object["status"] = before.Object["status"]; before.Object["status"] == nil {
			delete(after.Object, "status")
		}
	}
	after.SetUID(before.GetUID())
	after.SetCreationTimestamp(before.GetCreationTimestamp())
	after.SetDeletionTimestamp(before.GetDeletionTimestamp())
	after.SetGeneration(before.GetGeneration())
	if !equalJSON(before.Object["spec"], after.Object["spec"]) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	if after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 {
		return s.write(of, key, watch.Deleted, after)
	}
	after.SetResourceVersion(before.GetResourceVersion())
	if equalJSON(before.Object, after.Object) {
		return stored, nil
	}
	return s.write(of, key, watch.Modified, after)
}

// delete deletes an object, or marks it as deleted while it has finalizers.
func (s *store) delete(of *resource, key types.NamespacedName, preconditions *metav1.Preconditions) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, ok := s.objects[of][key]
	if !ok {
		return nil, apierrors.NewNotFound(of.groupResource(), key.Name)
	}
	object := decoded(stored)
	if p := preconditions; p != nil && (p.UID != nil && *p.UID != object.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != object.GetResourceVersion()) {
		return nil, apierrors.NewConflict(of.groupResource(), key.Name, fmt.Errorf("a precondition of the deletion failed"))
	}
	if len(object.GetFinalizers()) == 0 {
		return s.write(of, key, watch.Deleted, object)
	}
	if object.GetDeletionTimestamp() != nil {
		return stored, nil
	}
	object.SetDeletionTimestamp(new(metav1.Now()))
	object.SetGeneration(object.GetGeneration() + 1)
	return s.write(of, key, watch.Modified, object)
}

// write stores a change and its event. The caller has the lock.
func (s *store) write(of *resource, key types.NamespacedName, change watch.EventType, object *unstructured.Unstructured) (json.RawMessage, error) {
	s.version++
	object.SetResourceVersion(strconv.FormatUint(s.version, 10))
	object.SetGroupVersionKind(of.kind)
	content, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if change == watch.Deleted {
		delete(s.objects[of], key)
	} else {
		s.seed(of, key, content)
	}
	s.events = append(s.events, event{s.version, of, change, key, content})
	if len(s.events) > maxEvents {
		s.events = slices.Clone(s.events[1:])
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return content, nil
}

func keyOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// decoded reads what write has stored.
func decoded(content json.RawMessage) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(content); err != nil {
		panic(err)
	}
	return object
}

func equalJSON(a, b any) bool {
	one, _ := json.Marshal(a) // what was decoded from JSON can be encoded
	other, _ := json.Marshal(b)
	return string(one) == string(other)
}
