package manyclusters

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// request is a request for objects of a resource.
type request struct {
	*http.Request
	of          *resource
	key         types.NamespacedName
	subresource string
	// metadata: only the metadata of objects are answered.
	metadata bool
	labels   labels.Selector
	fields   fields.Selector
}

// parse reads a path such as apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE.
func (c *Cluster) parse(r *http.Request, parts []string) (*request, error) {
	group, version, rest := "", "", []string(nil)
	switch {
	case parts[0] == "api" && len(parts) > 2:
		version, rest = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		group, version, rest = parts[1], parts[2], parts[3:]
	default:
		return nil, apierrors.NewNotFound(builtIn()[0].groupResource(), r.URL.Path)
	}
	asked := &request{Request: r, metadata: strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")}
	if rest[0] == "namespaces" && len(rest) > 2 && rest[2] != "status" && rest[2] != "finalize" {
		asked.key.Namespace, rest = rest[1], rest[2:]
	}
	asked.of = c.resourceOf(func(of *resource) bool {
		return of.kind.Group == group && of.kind.Version == version && of.plural == rest[0]
	})
	if asked.of == nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, builtIn()[0].groupResource(), "", "the server could not find the requested resource", 0, true)
	}
	if len(rest) > 1 {
		asked.key.Name = rest[1]
	}
	if len(rest) > 2 {
		asked.subresource = rest[2]
	}
	var err error
	if asked.labels, err = labels.Parse(r.URL.Query().Get("labelSelector")); err == nil {
		asked.fields, err = fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return asked, nil
}

// verb is the verb of a request, as in audit logs.
func (r *request) verb() string {
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "" && r.URL.Query().Get("watch") != "false":
		return "watch"
	case r.Method == http.MethodGet && r.key.Name == "":
		return "list"
	}
	return map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[r.Method]
}

// serveObjects answers a request for objects.
func (c *Cluster) serveObjects(w http.ResponseWriter, r *http.Request, parts []string) {
	asked, err := c.parse(r, parts)
	if err != nil {
		c.count(strings.ToLower(r.Method) + " " + r.URL.Path)
		refuse(w, err)
		return
	}
	name := asked.of.plural
	if asked.subresource != "" {
		name += "/" + asked.subresource
	}
	c.count(asked.verb() + " " + name)
	var content json.RawMessage
	code := http.StatusOK
	switch asked.verb() {
	case "watch":
		c.watch(w, asked)
		return
	case "list":
		c.list(w, asked)
		return
	case "get":
		content, err = c.store.get(asked.of, asked.key)
	case "create":
		code = http.StatusCreated
		content, err = c.create(asked)
	case "update":
		content, err = c.update(asked)
	case "patch":
		content, err = c.patch(asked)
	case "delete":
		content, err = c.delete(asked)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, code, asked.shown(content))
}

// shown returns what a client asked for of an object.
func (r *request) shown(content json.RawMessage) json.RawMessage {
	if !r.metadata {
		return content
	}
	var object struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	_ = json.Unmarshal(content, &object) // the store encoded it
	shown, _ := json.Marshal(map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object.Metadata})
	return shown
}

// selects reports whether the selectors of a request select an object.
func (r *request) selects(content json.RawMessage) bool {
	if r.labels.Empty() && r.fields.Empty() {
		return true
	}
	object := decoded(content)
	found := fields.Set{}
	for _, term := range r.fields.Requirements() {
		found[term.Field], _, _ = unstructured.NestedString(object.Object, strings.Split(term.Field, ".")...)
	}
	return r.labels.Matches(labels.Set(object.GetLabels())) && r.fields.Matches(found)
}

func (c *Cluster) list(w http.ResponseWriter, r *request) {
	all, version := c.store.list(r.of, r.key.Namespace)
	items := []json.RawMessage{}
	for _, content := range all {
		if r.selects(content) {
			items = append(items, r.shown(content))
		}
	}
	apiVersion, kind := r.of.kind.GroupVersion().String(), r.of.kind.Kind+"List"
	if r.metadata {
		apiVersion, kind = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	answer(w, http.StatusOK, map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"resourceVersion": strconv.FormatUint(version, 10)}, "items": items,
	})
}

// bookmarkInterval is how often a watch without events tells the current version, as with a real API server.
const bookmarkInterval = time.Minute

// watch streams the events of a resource until it times out.
func (c *Cluster) watch(w http.ResponseWriter, r *request) {
	query := r.URL.Query()
	seconds, _ := strconv.Atoi(query.Get("timeoutSeconds"))
	if seconds == 0 {
		seconds = 1800
	}
	over := time.After(time.Duration(seconds) * time.Second)
	version, _ := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	send := func(change watch.EventType, object any) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": change, "object": object}) // the client may be gone
	}
	bookmark := func(annotations map[string]any) {
		metadata := map[string]any{"resourceVersion": strconv.FormatUint(version, 10), "annotations": annotations}
		apiVersion, kind := r.of.kind.ToAPIVersionAndKind()
		if r.metadata {
			apiVersion, kind = "meta.k8s.io/v1", "PartialObjectMetadata"
		}
		send(watch.Bookmark, map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata})
	}
	if initial := query.Get("sendInitialEvents") == "true"; initial || version == 0 {
		var all []json.RawMessage
		all, version = c.store.list(r.of, r.key.Namespace)
		for _, content := range all {
			if r.selects(content) {
				send(watch.Added, r.shown(content))
			}
		}
		if initial {
			bookmark(map[string]any{metav1.InitialEventsAnnotationKey: "true"})
		}
	}
	marks := time.NewTicker(bookmarkInterval)
	defer marks.Stop()
	for {
		events, changed, gone := c.store.since(version)
		if gone {
			expired := apierrors.NewResourceExpired("too old resource version").Status()
			expired.Kind, expired.APIVersion = "Status", "v1"
			send(watch.Error, expired)
			return
		}
		for _, e := range events {
			version = e.version
			if e.of != r.of || r.key.Namespace != "" && e.key.Namespace != r.key.Namespace {
				continue
			}
			if change := e.change; r.selects(e.object) {
				send(change, r.shown(e.object))
			} else if change == watch.Modified {
				send(watch.Deleted, r.shown(e.object))
			}
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-marks.C:
			bookmark(nil)
		case <-over:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// protobuf reports whether the body is protobuf: clients send the built-in kinds so.
func (r *request) protobuf() bool {
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return mediaType == runtime.ContentTypeProtobuf
}

// body decodes the object in a request: JSON, or protobuf.
func (r *request) body() (*unstructured.Unstructured, error) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if r.protobuf() {
		object, kind, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(content, nil, nil)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		decoded := &unstructured.Unstructured{Object: fields}
		decoded.SetGroupVersionKind(*kind)
		return decoded, err
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(content, &object.Object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return object, nil
}

func (c *Cluster) create(r *request) (json.RawMessage, error) {
	object, err := r.body()
	if err != nil {
		return nil, err
	}
	if r.subresource == "eviction" {
		var eviction policyv1.Eviction
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &eviction); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		var preconditions *metav1.Preconditions
		if eviction.DeleteOptions != nil {
			preconditions = eviction.DeleteOptions.Preconditions
		}
		if _, err := c.store.delete(r.of, r.key, preconditions); err != nil {
			return nil, err
		}
		return json.RawMessage(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`), nil
	}
	object.SetNamespace(r.key.Namespace)
	return c.store.create(r.of, object)
}

func (c *Cluster) update(r *request) (json.RawMessage, error) {
	object, err := r.body()
	if err != nil {
		return nil, err
	}
	return c.store.update(r.of, r.key, r.subresource == "status", func(*unstructured.Unstructured) (*unstructured.Unstructured, error) { return object, nil })
}

func (c *Cluster) delete(r *request) (json.RawMessage, error) {
	content, err := io.ReadAll(r.Body)
	if err != nil || len(content) == 0 {
		return c.store.delete(r.of, r.key, nil)
	}
	options := &metav1.DeleteOptions{}
	if r.protobuf() {
		_, _, err = clientgoscheme.Codecs.UniversalDeserializer().Decode(content, nil, options)
	} else {
		err = json.Unmarshal(content, options)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return c.store.delete(r.of, r.key, options.Preconditions)
}

// patch changes an object. An apply is a merge that creates the object if necessary: no managed fields are kept, and nothing that is no longer applied is removed.
func (c *Cluster) patch(r *request) (json.RawMessage, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	applied := types.PatchType(mediaType) == types.ApplyYAMLPatchType
	if applied {
		if body, err = yaml.YAMLToJSON(body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		mediaType = string(types.MergePatchType)
	}
	content, err := c.store.update(r.of, r.key, r.subresource == "status", func(before *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		after, err := r.patched(before, types.PatchType(mediaType), body)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return after, nil
	})
	if applied && apierrors.IsNotFound(err) && r.subresource == "" {
		object := decoded(body)
		object.SetName(r.key.Name)
		object.SetNamespace(r.key.Namespace)
		return c.store.create(r.of, object)
	}
	return content, err
}

func (r *request) patched(before *unstructured.Unstructured, by types.PatchType, patch []byte) (*unstructured.Unstructured, error) {
	content, err := before.MarshalJSON()
	if err != nil {
		return nil, err
	}
	switch by {
	case types.MergePatchType:
		content, err = jsonpatch.MergePatch(content, patch)
	case types.JSONPatchType:
		var operations jsonpatch.Patch
		if operations, err = jsonpatch.DecodePatch(patch); err == nil {
			content, err = operations.Apply(content)
		}
	case types.StrategicMergePatchType:
		var typed runtime.Object
		if typed, err = clientgoscheme.Scheme.New(r.of.kind); err == nil {
			content, err = strategicpatch.StrategicMergePatch(content, patch, typed)
		}
	default:
		err = fmt.Errorf("patch of type %q", by)
	}
	if err != nil {
		return nil, err
	}
	after := &unstructured.Unstructured{}
	return after, after.UnmarshalJSON(content)
}
