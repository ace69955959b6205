package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"drydock.dev/drydock/activities/events"
)

// eventFlags select Events, with the names of the flags of kubectl events.
type eventFlags struct {
	object            string
	types             []string
	everywhere, watch bool
}

func newEvents(c *cli) *cobra.Command {
	var flags eventFlags
	cmd := &cobra.Command{
		Use:   "events",
		Short: "List the Events that Drydock has recorded in a cluster, the newest last",
		Long: `List the Events that Drydock has recorded in a cluster, the newest last. It reads the cluster with your own credentials, as "kubectl events" does.

Events on a node are in the namespace "default"; with --for node/NAME that namespace is read. An API server deletes Events, by default after an hour.

With --watch the command prints the Events there are, and then each new one, until it is interrupted or --timeout passes.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			types, err := flags.eventTypes()
			if err != nil {
				return err
			}
			config, err := c.kube.config(c.kube.context)
			if err != nil {
				return err
			}
			clientset, err := kubernetes.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("cluster at %s: %w", config.Host, err)
			}
			reader := eventReader{clientset: clientset, types: types, namespace: c.objectNamespace(), where: c.source(decisionFlags{})}
			if flags.everywhere {
				reader.namespace = metav1.NamespaceAll
			}
			config.Timeout = cmp.Or(c.timeout, requestTimeout) // discovery does not use the context's deadline
			if err := reader.selectObject(config, flags.object); err != nil {
				return err
			}
			if flags.watch {
				return c.watchEvents(ctx, reader)
			}
			return c.listEvents(ctx, reader)
		}),
	}
	cmd.Flags().StringVar(&flags.object, "for", "", "only the Events on this object, as TYPE/NAME, such as node/worker-7 or cgu/november")
	cmd.Flags().StringSliceVar(&flags.types, "types", nil, "only Events of these types: Normal, Warning")
	_ = cmd.RegisterFlagCompletionFunc("types", cobra.FixedCompletions([]string{corev1.EventTypeNormal, corev1.EventTypeWarning}, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().BoolVarP(&flags.everywhere, "all-namespaces", "A", false, "those in all namespaces")
	cmd.Flags().BoolVarP(&flags.watch, "watch", "w", false, "keep running and show every new Event")
	cmd.Flags().BoolVar(&c.noHeaders, "no-headers", false, "leave out the header of the table")
	c.addNamespaceFlagFor(cmd, `namespace of the Events (default "default")`)
	cmd.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
	c.addContextFlag(cmd, "the cluster")
	c.addOutputFlag(cmd)
	return cmd
}

// eventTypes returns the types of --types as the API spells them.
func (f eventFlags) eventTypes() ([]string, error) {
	var types []string
	for _, given := range f.types {
		known := []string{corev1.EventTypeNormal, corev1.EventTypeWarning}
		at := slices.IndexFunc(known, func(one string) bool { return strings.EqualFold(one, given) })
		if at < 0 {
			return nil, usagef("--types %q is not one of %s", given, joined(known))
		}
		types = append(types, known[at])
	}
	return types, nil
}

// eventReader reads Drydock's Events of a cluster.
type eventReader struct {
	clientset kubernetes.Interface
	// kind and name of the object; empty: any.
	kind, name string
	types      []string
	namespace  string
	// where names the cluster for people.
	where string
}

// selectObject selects the Events on an object, given as TYPE/NAME; an empty one selects those on all.
func (r *eventReader) selectObject(config *rest.Config, object string) error {
	if object == "" {
		return nil
	}
	resource, name, found := strings.Cut(object, "/")
	if !found || resource == "" || name == "" || strings.Contains(name, "/") {
		return usagef("--for %q is not TYPE/NAME, such as node/worker-7", object)
	}
	mapping, err := mappingOf(config, resource)
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%s does not serve the type %q of --for", r.where, resource)
	}
	if err != nil {
		return fmt.Errorf("find the type %q of --for in %s: %w", resource, r.where, err)
	}
	r.kind, r.name = mapping.GroupVersionKind.Kind, name
	if mapping.Scope.Name() == meta.RESTScopeNameRoot && r.namespace != metav1.NamespaceAll {
		r.namespace = events.ClusterScoped
	}
	return nil
}

// mappingOf finds a type by its name, its plural, its short name, or RESOURCE.GROUP.
func mappingOf(config *rest.Config, resource string) (*meta.RESTMapping, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client)), client, nil)
	// RESOURCE.GROUP with dots in the group could also be RESOURCE.VERSION.GROUP.
	versioned, group := schema.ParseResourceArg(strings.ToLower(resource))
	kind, err := mapper.KindFor(group.WithVersion(""))
	if meta.IsNoMatchError(err) && versioned != nil {
		kind, err = mapper.KindFor(*versioned)
	}
	if err != nil {
		return nil, err
	}
	return mapper.RESTMapping(kind.GroupKind(), kind.Version)
}

// options select the Events at the API server.
func (r *eventReader) options() metav1.ListOptions {
	selector := fields.Set{"reportingComponent": events.Reporter}
	if r.kind != "" {
		selector["involvedObject.kind"], selector["involvedObject.name"] = r.kind, r.name
	}
	return metav1.ListOptions{FieldSelector: fields.SelectorFromSet(selector).String()}
}

// list returns the Events, the newest last.
func (r *eventReader) list(ctx context.Context) (*corev1.EventList, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := r.clientset.CoreV1().Events(r.namespace).List(ctx, r.options())
	if err != nil {
		return nil, fmt.Errorf("list the Events of %s: %w", r.where, err)
	}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("EventList"))
	list.Items = slices.DeleteFunc(list.Items, func(event corev1.Event) bool { return !r.wants(&event) })
	slices.SortStableFunc(list.Items, byTime)
	for i := range list.Items {
		asKubectlPrints(&list.Items[i])
	}
	return list, nil
}

func (r *eventReader) wants(event *corev1.Event) bool {
	return len(r.types) == 0 || slices.Contains(r.types, event.Type)
}

// byTime sorts Events by the second in which they happened, and then by the order in which they were recorded.
func byTime(a, b corev1.Event) int {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	if err != nil {
		order = cmp.Compare(a.Name, b.Name)
	}
	return cmp.Or(a.LastTimestamp.Compare(b.LastTimestamp.Time), order)
}

// asKubectlPrints names the kind, which lists leave out, and leaves out the managed fields.
func asKubectlPrints(event *corev1.Event) {
	event.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Event"))
	event.ManagedFields = nil
}

func (c *cli) listEvents(ctx context.Context, reader eventReader) error {
	list, err := reader.list(ctx)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(list.Items))
	for _, event := range list.Items {
		names = append(names, "event/"+event.Name)
	}
	return c.print(list, func(w *page) {
		if len(list.Items) == 0 {
			fmt.Fprintln(w, "no Events of Drydock "+reader.scope())
			return
		}
		header := []any{"LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"}
		everywhere := reader.namespace == metav1.NamespaceAll
		if everywhere {
			header = append([]any{"NAMESPACE"}, header...)
		}
		t := w.newTable(header...)
		for _, event := range list.Items {
			row := table.Row{age(w.now, event.LastTimestamp.Time), event.Type, event.Reason, involved(&event), event.Message}
			if everywhere {
				row = append(table.Row{event.Namespace}, row...)
			}
			t.AppendRow(row)
		}
		fmt.Fprintln(w, t.Render())
	}, names...)
}

// scope says which Events are read.
func (r *eventReader) scope() string {
	var on string
	if r.kind != "" {
		on = "on " + r.kind + " " + r.name + " "
	}
	if r.namespace == metav1.NamespaceAll {
		return on + "in " + r.where
	}
	return on + "in namespace " + r.namespace + " of " + r.where
}

// involved names the object of an Event as kubectl does.
func involved(event *corev1.Event) string {
	return strings.ToLower(event.InvolvedObject.Kind) + "/" + event.InvolvedObject.Name
}

// watchEvents prints the Events there are, and then each that is recorded, until ctx is done.
func (c *cli) watchEvents(ctx context.Context, reader eventReader) error {
	list, err := reader.list(ctx)
	if err != nil {
		return err
	}
	for i := range list.Items {
		if err := c.printEvent(&list.Items[i]); err != nil {
			return err
		}
	}
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = reader.options().FieldSelector
			return reader.clientset.CoreV1().Events(reader.namespace).Watch(ctx, options)
		},
	})
	if err != nil {
		return fmt.Errorf("watch the Events of %s: %w", reader.where, err)
	}
	defer watcher.Stop()
	for change := range watcher.ResultChan() {
		if change.Type == watch.Error {
			return fmt.Errorf("watch the Events of %s: %w", reader.where, apierrors.FromObject(change.Object))
		}
		event, ok := change.Object.(*corev1.Event)
		if !ok || change.Type != watch.Added && change.Type != watch.Modified || !reader.wants(event) {
			continue
		}
		asKubectlPrints(event)
		if err := c.printEvent(event); err != nil {
			return err
		}
	}
	return nil // the watch ends only with ctx
}

// printEvent prints an Event as a line, or as a document for -o json and yaml.
func (c *cli) printEvent(event *corev1.Event) error {
	if !c.forPeople() {
		text, err := c.document(event)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.Out, text)
		return err
	}
	at := stamp(event.LastTimestamp.Time, c.now())
	return c.say("%s  %s  %s  %s: %s", at, event.Type, involved(event), event.Reason, strings.ReplaceAll(event.Message, "\n", " "))
}
