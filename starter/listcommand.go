package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"drydock.dev/drydock/internal/observe"
)

// listKind describes the list of the workflows of one noun.
type listKind struct {
	workflowType string
	// prefix begins the ids of the workflows; the cluster and the namespace follow, if the names have them.
	prefix string
	// short and long are the help, runningHelp that of --running.
	short, long, runningHelp string
	// word names one row; none and noneRunning say that there is no row.
	word, none, noneRunning string
	// clustered and namespaced: the names have a cluster, and a namespace.
	clustered, namespaced bool
	header                []any
	row                   func(row workflowRow, now time.Time) table.Row
	// details adds to the rows what Temporal's visibility does not have; nil adds nothing.
	details func(context.Context, *server, []workflowRow)
	// extend adds to the list what is not a row; nil adds nothing.
	extend func(context.Context, *server, listing) (listResult, error)
}

// listResult is a list as programs read it and as people do.
type listResult interface {
	followed
	ids() []string
}

// listFlags are the flags of all lists.
type listFlags struct {
	selector            string
	everywhere, running bool
	watch               bool
}

// addListFlags adds the flags that all lists have.
func (c *cli) addListFlags(cmd *cobra.Command, flags *listFlags, selectsBy string) {
	cmd.Flags().BoolVarP(&flags.watch, "watch", "w", false, "keep running and show every change")
	cmd.Flags().StringVarP(&flags.selector, "selector", "l", "", "label selector, such as 'cluster=spoke-1' or 'phase in (Draining,Ready)'; "+selectsBy)
	cmd.Flags().BoolVar(&c.noHeaders, "no-headers", false, "leave out the header and the counts of a table")
	c.addOutputFlag(cmd)
}

// parsed returns the selector.
func (f listFlags) parsed() (labels.Selector, error) {
	selector, err := labels.Parse(f.selector)
	if err != nil {
		return nil, usagef("--selector %q: %w", f.selector, err)
	}
	return selector, nil
}

// newList returns the command that lists the workflows of a noun.
func (c *cli) newList(kind *listKind) *cobra.Command {
	var flags listFlags
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   kind.short,
		Long:    kind.long,
		Args:    operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			if c.namespace = cmp.Or(c.namespace, c.contextNamespace); flags.everywhere {
				c.namespace = ""
			}
			selector, err := flags.parsed()
			if err != nil {
				return err
			}
			return c.onServer(ctx, func(s *server) error {
				return c.showList(ctx, flags.watch, func(ctx context.Context) (listResult, error) {
					return c.readList(ctx, s, kind, selector, flags.running)
				})
			})
		}),
	}
	cmd.Flags().BoolVar(&flags.running, "running", false, kind.runningHelp)
	if kind.clustered {
		c.addClusterFlag(cmd)
	}
	if kind.namespaced {
		c.addNamespaceFlagFor(cmd, "only those in this namespace")
		cmd.Flags().BoolVarP(&flags.everywhere, "all-namespaces", "A", false, "those in all namespaces, also if a context sets one (default without --namespace)")
	}
	c.addListFlags(cmd, &flags, "the labels of a row are "+selectable())
	return cmd
}

// readList reads a list.
func (c *cli) readList(ctx context.Context, s *server, kind *listKind, selector labels.Selector, running bool) (listResult, error) {
	rows, err := s.list(ctx, c.listQuery(kind, running))
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(row workflowRow) bool {
		return kind.namespaced && c.namespace != "" && row.Namespace != c.namespace ||
			kind.clustered && c.cluster != "" && row.Cluster != c.cluster || !selector.Matches(row.labels())
	})
	if kind.details != nil {
		kind.details(ctx, s, rows)
	}
	list := newListing(kind, rows, running)
	list.within = c.listWithin(kind, selector, running)
	if kind.extend != nil && c.output != formatName {
		return kind.extend(ctx, s, list)
	}
	return list, nil
}

// listWithin says to what a list is limited by its flags, and by --running if there are others.
func (c *cli) listWithin(kind *listKind, selector labels.Selector, running bool) (within string) {
	if kind.namespaced && c.namespace != "" {
		within += " in namespace " + c.namespace
	}
	if kind.clustered && c.cluster != "" {
		within += " in cluster " + c.cluster
	}
	if !selector.Empty() {
		within += " with " + selector.String()
	}
	if running && within != "" {
		within = " running" + within
	}
	return within
}

// listQuery is the visibility query for the workflows of a noun in the cluster and the namespace of the flags, as far as their ids begin with them.
func (c *cli) listQuery(kind *listKind, running bool) string {
	prefix := kind.prefix
	if kind.clustered && c.cluster != "" {
		prefix += c.cluster + "/"
	}
	if kind.namespaced && c.namespace != "" && kind.clustered == (c.cluster != "") {
		prefix += c.namespace + "/"
	}
	query := observe.WorkflowsOf(kind.workflowType, running)
	if prefix != kind.prefix {
		query += fmt.Sprintf(" AND WorkflowId STARTS_WITH '%s'", quoted(prefix))
	}
	return query
}

// listAgain is the pause between two reads of a watched list: Temporal's visibility cannot be watched.
const listAgain = 2 * time.Second

// showList prints a list, or with watch every change of it until the command is interrupted or --timeout passes.
func (c *cli) showList(ctx context.Context, watch bool, read func(context.Context) (listResult, error)) error {
	if !watch {
		list, err := read(ctx)
		if err != nil {
			return err
		}
		return c.print(list, func(w *page) { fmt.Fprintln(w, list.frame(w.now, w.frameStyle)) }, list.ids()...)
	}
	view := c.newView()
	for {
		list, err := read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // the watch ends only this way
		case observe.Away(err):
			view.note(fmt.Sprintf("Temporal does not answer; retrying: %s", err))
		case err != nil:
			return err
		default:
			if err := view.show(list); err != nil {
				return err
			}
		}
		if observe.Pause(ctx, listAgain) != nil {
			return nil
		}
	}
}
