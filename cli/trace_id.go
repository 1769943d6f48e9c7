package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/external"
	records "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
	"github.com/kausality-io/function-kausality/internal/history/query"
)

// maxTracePages bounds a search of the history, in pages of query.MaxLimit records.
const maxTracePages = 100

// id prints what a trace id belongs to (KR-12-33).
func (c *traceCommand) id(ctx context.Context, id string) error {
	switch c.format.value {
	case formatMermaid, formatDot, formatSVG:
		return usageError{fmt.Errorf("-o %s draws the trace of one object: name it as TYPE/NAME; kubectl kausality trace %s lists those that have the id",
			c.format.value, id)}
	}
	if err := c.historySource.check(); err != nil {
		return err
	}
	conn, err := c.connection()
	if err != nil {
		return err
	}
	if d, err := inspect.Find(ctx, conn, conn.namespace, id); err == nil {
		return differenceID(d)
	}
	i, err := c.inspector(ctx)
	if err != nil {
		return err
	}
	found, err := i.Traced(ctx, id, *c.kube.Namespace)
	if err != nil {
		return err
	}
	if len(found.Objects) == 0 {
		if err := c.earlier(ctx, found); err != nil {
			return err
		}
	}
	if err := c.printID(found); err != nil {
		return err
	}
	if len(found.Unread) > 0 && found.Record == "" {
		fmt.Fprintln(c.ErrOut, "Not read, since you may not list them: "+strings.Join(found.Unread, ", "))
		return errUnread
	}
	return nil
}

// differenceID is the error of an id that is no trace's: what it is about, and the commands for that.
func differenceID(d *v1alpha1.Drift) error {
	of := d.Spec.Child
	if of.Name == "" {
		of = d.Spec.Parent
	}
	about := channel.Part("-n ", of.Namespace, " ") + slashed(schema.FromAPIVersionAndKind(of.APIVersion, of.Kind), of.Name)
	return fmt.Errorf("%s is the id of a difference, by which it is approved, and not of a trace; did you mean: kubectl kausality explain %s, or "+
		"kubectl kausality pending -n %s", d.Name, about, d.Namespace)
}

// earlier searches the history for the intent that has an id; the error is what was searched where nothing has it.
func (c *traceCommand) earlier(ctx context.Context, t *inspect.Traced) error {
	where := "all namespaces"
	if ns := *c.kube.Namespace; ns != "" {
		where = "namespace " + ns
	}
	searched := fmt.Sprintf("nothing has trace id %s: %s of %s in %s were read%s", t.ID, channel.Plural(t.Read, "object"), channel.Plural(t.Kinds, "kind"),
		where, channel.Part("; not read, since you may not list them: ", strings.Join(t.Unread, ", "), ""))
	n, all, err := c.inHistory(ctx, t)
	switch {
	case err != nil:
		return fmt.Errorf("%s. An object has the id of its last change; those of earlier ones are in the history alone, which was not searched: %w; "+
			"give --history-service or --url where it is elsewhere", searched, err)
	case t.Record != "":
		return nil
	case !all:
		return fmt.Errorf("%s, and the newest %s of the history; if you know which object was changed, and when: kubectl kausality history TYPE/NAME",
			searched, channel.Plural(n, "intent"))
	}
	return fmt.Errorf("%s, and all %s of the history since %s; for older ones give a longer --since", searched, channel.Plural(n, "intent"),
		time.Now().Add(-time.Duration(c.since)).UTC().Format(time.RFC3339))
}

// inHistory looks for the intent that has an id, the newest first. n is how many were compared, all whether there are no more.
func (c *traceCommand) inHistory(ctx context.Context, t *inspect.Traced) (n int, all bool, err error) {
	if *c.kube.Impersonate != "" {
		return 0, false, errNoImpersonation
	}
	from, err := c.connect(c.session)
	if err != nil {
		return 0, false, err
	}
	r := query.Request{Filter: query.Filter{Type: string(records.TypeIntent), Since: time.Now().Add(-time.Duration(c.since))}, Limit: query.MaxLimit}
	for range maxTracePages {
		page, _, err := from.Page(ctx, r)
		if err != nil {
			return n, false, c.explain(err)
		}
		for _, raw := range page.Records {
			found := &records.Record{}
			if err := json.Unmarshal(raw, found); err != nil {
				return n, false, fmt.Errorf("cannot read a record: %w", err)
			}
			n++
			if h := intentOf(found, t.ID); h != nil {
				t.Origin, t.Record, t.Cluster = h, found.ID, cmp.Or(found.Cluster.Name, string(found.Cluster.UID))
				return n, false, nil
			}
		}
		if r.Cursor = page.Next; r.Cursor == "" {
			return n, true, nil
		}
	}
	return n, false, nil
}

// intentOf returns the intent of a record as a hop, if that has an id as the origin of traces; nil otherwise. A name that was generated may be missing in
// the hop.
func intentOf(r *records.Record, id string) *v1alpha1.Hop {
	if r.Type != records.TypeIntent {
		return nil
	}
	h := v1alpha1.Hop{APIVersion: r.Object.APIVersion, Kind: r.Object.Kind, Name: r.Object.Name, Namespace: r.Object.Namespace,
		ClusterScoped: r.Object.Namespace == "", Generation: r.Object.Generation, Timestamp: metav1.NewTime(r.Time.UTC().Truncate(time.Second)), Labels: r.Labels}
	if n := len(r.Trace); n > 0 {
		h.User = r.Trace[n-1].User
	} else if r.Actor != nil {
		h.User = r.Actor.User
	}
	nameless := h
	nameless.Name = ""
	for _, as := range []v1alpha1.Hop{h, nameless} {
		if external.ProvenanceOf([]v1alpha1.Hop{as}, "").TraceID == id {
			return &h
		}
	}
	return nil
}

// printID prints what a trace id belongs to, in the format of the flag.
func (c *traceCommand) printID(t *inspect.Traced) error {
	if done, err := c.format.structured(c.Out, t); done {
		return err
	}
	if c.format.value == formatName {
		for _, o := range t.Objects {
			fmt.Fprintln(c.Out, slashed(schema.FromAPIVersionAndKind(o.Object.APIVersion, o.Object.Kind), o.Object.Name))
		}
		if h := t.Origin; h != nil && len(t.Objects) == 0 {
			fmt.Fprintln(c.Out, slashed(schema.FromAPIVersionAndKind(h.APIVersion, h.Kind), h.Name))
		}
		return nil
	}
	traced(c.view, t, c.format.value == formatWide).draw(c.Out)
	if t.Record != "" {
		fmt.Fprintln(c.Out, c.view.yellow("It is an earlier intent, from the history"+channel.Part(" of cluster ", t.Cluster, "")+
			": nothing that was read has its id any more."))
		fmt.Fprintln(c.Out, "What followed from it: kubectl kausality history --graph "+t.Record)
	}
	return nil
}

// traced returns a tree: the objects with an id below the intent that has it.
func traced(v view, t *inspect.Traced, wide bool) *node {
	top := &node{text: "Trace " + v.bold(t.ID)}
	if h := t.Origin; h != nil {
		top.text, top.lines = v.hop(*h, "", wide), v.hopLines(*h)
	}
	for _, o := range t.Objects {
		switch {
		case o.Hop == nil:
			top.add(v.bold(channel.Describe(o.Object))+": "+v.yellow("changed since"), "its tags or variables have the id: "+o.Origin+", by "+o.Initiator)
		case t.Origin != nil && sameHop(*t.Origin, *o.Hop):
		default:
			h := *o.Hop
			h.Name = cmp.Or(o.Object.Name, h.Name)
			top.add(v.hop(h, "", wide), v.hopLines(h)...)
		}
	}
	if t.More > 0 {
		top.addf("and %d more", t.More)
	}
	return top
}

// sameHop reports whether two hops belong to the same intent.
func sameHop(a, b v1alpha1.Hop) bool {
	return a.Kind == b.Kind && a.APIVersion == b.APIVersion && a.Namespace == b.Namespace && a.Name == b.Name && a.Generation == b.Generation &&
		a.User == b.User && a.Timestamp.Equal(&b.Timestamp)
}
