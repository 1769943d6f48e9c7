package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	records "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/internal/history/client"
	"github.com/kausality-io/function-kausality/internal/history/query"
	"github.com/kausality-io/function-kausality/internal/pause"
)

const (
	formatCSV = "csv"
	// defaultSince and defaultRecords bound what is printed.
	defaultSince   = 90 * 24 * time.Hour
	defaultRecords = 100
	// watchEvery is how often new records are read. overlap is how far back: records arrive in the order of
	// their transactions, and clocks differ.
	watchEvery = 2 * time.Second
	overlap    = 30 * time.Second
)

// historyCommand shows records of a store.
type historyCommand struct {
	*session
	arguments
	format format
	filter query.Filter
	since  period
	limit  int
	watch  bool
	graph  string
	historySource
	// every is how often new records are read.
	every time.Duration
}

// newHistoryCommand returns `kubectl kausality history`.
func newHistoryCommand(s *session) *cobra.Command {
	c := &historyCommand{session: s, since: period(defaultSince), every: watchEvery}
	cmd := &cobra.Command{
		Use: "history [TYPE/NAME]", Short: "Show who caused changes in the last 90 days, who approved them, and what they did.",
		Example: `  # Who caused changes to this database, and to what is below it?
  kubectl kausality history xdatabase orders --since 90d

  # What did this revision change, what did a user approve, and what happened to an external resource?
  kubectl kausality history --cause compositionrevision/xdatabases-3f1c9a2
  kubectl kausality history --approver bert@example.com -o csv
  kubectl kausality history --external arn:aws:rds:eu-central-1:123456789012:db:orders

  # Everything that led to one record and followed from it, and what happens from now on
  kubectl kausality history --graph 6f1c0a52-0f0b-5b0e-9a35-3f7a2f1f0c11
  kubectl kausality history xdatabase orders --watch`,
		ValidArgsFunction: completer{s}.object,
		RunE:              runs(c),
	}
	c.format.add(cmd, formatTableName, formatJSON, formatYAML, formatCSV)
	fl := cmd.Flags()
	fl.Var(&c.since, "since", "How far back, as in 90d or 12h.")
	fl.Lookup("since").DefValue = "90d"
	fl.StringVar(&c.filter.Initiator, "initiator", "", "Only what this user caused: the first user of a trace, else who acted.")
	fl.StringVar(&c.filter.Approver, "approver", "", "Only what this user approved or rejected.")
	fl.StringVar(&c.filter.Cause, "cause", "", "Only what this caused other than an intent: KIND/NAME or NAME, as of a CompositionRevision.")
	fl.StringVar(&c.filter.External, "external", "", "Only the external resource with this external name.")
	fl.StringVar(&c.filter.Type, "type", "", "Only records of this type, as in DriftHeld or GateOpened.")
	fl.StringVar(&c.filter.Cluster, "in-cluster", "", "Only records of the cluster with this UID or name.")
	fl.IntVar(&c.limit, "limit", defaultRecords, "How many records at most, the newest; 0 for all.")
	fl.BoolVarP(&c.watch, "watch", "w", false, "Print new records until interrupted.")
	fl.StringVar(&c.graph, "graph", "", "Instead: the record with this id, what led to it, and what followed, oldest first.")
	c.addFlags(cmd)
	return cmd
}

// formatTableName names the default on a command line.
const formatTableName = "table"

// run prints the records that the arguments and flags select (KR-16-45).
func (c *historyCommand) run(ctx context.Context) error {
	if err := c.about(c.args); err != nil {
		return err
	}
	from, err := c.connect(c.session)
	if err != nil {
		return err
	}
	out := newRecordPrinter(c.Out, c.format.value, c.watch)
	if c.graph != "" {
		g, err := from.Graph(ctx, c.graph)
		if err != nil {
			return c.explain(err)
		}
		if g.Truncated {
			fmt.Fprintln(c.ErrOut, "There are more; these are some of them.")
		}
		return errors.Join(out.print(g.Records), out.end())
	}
	c.filter.Since = time.Now().Add(-time.Duration(c.since))
	seen, now, err := c.list(ctx, from, out)
	if err == nil && c.watch {
		err = c.follow(ctx, from, out, seen, now)
	}
	if err != nil {
		return errors.Join(c.explain(err), out.flush())
	}
	return out.end()
}

// complete completes the format: a table is that without a name, too.
func (c *historyCommand) complete(cmd *cobra.Command, args []string) error {
	if c.format.value == formatTableName {
		c.format.value = formatTable
	}
	return c.arguments.complete(cmd, args)
}

// validate validates the flags, and those that exclude each other.
func (c *historyCommand) validate() error {
	switch {
	case c.limit < 0:
		return usageError{errors.New("--limit must not be negative")}
	case c.graph != "" && (len(c.args) > 0 || c.watch):
		return usageError{errors.New("--graph is of one record: give no object and no --watch with it")}
	case *c.kube.Impersonate != "":
		return usageError{errNoImpersonation}
	}
	return c.historySource.check()
}

// about reads the object from the arguments, which may be deleted: only its kind is looked up.
func (c *historyCommand) about(args []string) error {
	if len(args) == 0 {
		return nil
	}
	of, name, ok := strings.Cut(args[0], "/")
	if len(args) == 2 && !ok {
		name = args[1]
	}
	if len(args) > 2 || len(args) == 2 && ok || name == "" {
		return usageError{fmt.Errorf("name one object as TYPE/NAME or TYPE NAME, as in xdatabase/orders")}
	}
	kind, namespaced, err := c.kind(of)
	if err != nil {
		return err
	}
	c.filter.Kind, c.filter.Name = kind.String(), name
	if namespaced {
		c.filter.Namespace, err = c.namespace()
	}
	return err
}

// kind returns the kind of a type as kubectl takes it. One that this cluster does not have, as of another cluster, is given as KIND.GROUP.
func (c *historyCommand) kind(of string) (kind schema.GroupKind, namespaced bool, err error) {
	mapper, err := c.mapper()
	if err != nil {
		return kind, false, err
	}
	gvr, gr := schema.ParseResourceArg(strings.ToLower(of))
	if gvr == nil {
		gvr = &schema.GroupVersionResource{Group: gr.Group, Resource: gr.Resource}
	}
	gvk, err := mapper.KindFor(*gvr)
	if meta.IsNoMatchError(err) {
		gvk, err = mapper.KindFor(gr.WithVersion(""))
	}
	if meta.IsNoMatchError(err) {
		if gk := schema.ParseGroupKind(of); gk.Group != "" && unicode.IsUpper(rune(gk.Kind[0])) {
			return gk, *c.kube.Namespace != "", nil
		}
		return kind, false, fmt.Errorf("the server has no type %q; give one that it no longer has as KIND.GROUP, with -n if it is namespaced", of)
	}
	if err != nil {
		return kind, false, fmt.Errorf("cannot find type %s: %w", of, err)
	}
	m, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return kind, false, fmt.Errorf("cannot find type %s: %w", of, err)
	}
	return gvk.GroupKind(), m.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// list pages up to the limit. seen are the ids of what was printed, now is the time of the server before it.
func (c *historyCommand) list(ctx context.Context, from *client.Client, out *recordPrinter) (seen map[string]time.Time, now time.Time, err error) {
	seen = map[string]time.Time{}
	r := query.Request{Filter: c.filter, Limit: query.DefaultLimit}
	for n := 0; ; {
		if c.limit > 0 {
			r.Limit = min(query.MaxLimit, c.limit-n)
		}
		page, at, err := from.Page(ctx, r)
		if err != nil {
			return nil, now, err
		}
		if now.IsZero() {
			now = at
		}
		for _, raw := range page.Records {
			seen[idOf(raw)] = at
		}
		if err := out.print(page.Records); err != nil {
			return nil, now, err
		}
		if n += len(page.Records); page.Next == "" {
			return seen, now, nil
		}
		if c.limit > 0 && n >= c.limit {
			if !c.watch {
				fmt.Fprintf(c.ErrOut, "There are more; give --limit 0 for all.\n")
			}
			return seen, now, nil
		}
		r.Cursor = page.Next
	}
}

// follow prints records that arrive, oldest first, until the context ends.
func (c *historyCommand) follow(ctx context.Context, from *client.Client, out *recordPrinter, seen map[string]time.Time, now time.Time) error {
	for {
		if err := out.flush(); err != nil {
			return err
		}
		if !pause.For(ctx, c.every) {
			return nil
		}
		r := query.Request{Filter: c.filter, Limit: query.MaxLimit}
		r.StoredSince = now.Add(-overlap)
		var fresh []rawRecord
		for {
			page, at, err := from.Page(ctx, r)
			switch {
			case err != nil && ctx.Err() != nil:
				return nil //nolint:nilerr // The user ended it.
			case err != nil:
				return err
			}
			if r.Cursor == "" && !at.IsZero() {
				now = at
			}
			for _, raw := range page.Records {
				id := idOf(raw)
				if _, ok := seen[id]; !ok {
					fresh = append(fresh, raw)
				}
				seen[id] = now
			}
			if r.Cursor = page.Next; r.Cursor == "" {
				break
			}
		}
		maps.DeleteFunc(seen, func(_ string, at time.Time) bool { return now.Sub(at) > 4*overlap }) // no page has it again
		slices.Reverse(fresh)
		if err := out.print(fresh); err != nil {
			return err
		}
	}
}

// objectText names the object of a record, as kubectl prints it.
func objectText(o *records.Object) string {
	return channel.Part("", o.Namespace, " ") + slashed(schema.GroupVersionKind{Group: o.Group(), Kind: o.Kind}, o.Name)
}
