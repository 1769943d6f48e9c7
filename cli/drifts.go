package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/suggest"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

// onlyIDs reports whether there are arguments, all of them ids.
func onlyIDs(args []string) bool {
	return len(args) > 0 && !slices.ContainsFunc(args, func(a string) bool { return !change.IsID(a) })
}

// misnamed refuses arguments that are neither ids nor objects, and none where nothing else selects changes; it shows the form of both.
func misnamed(cmd *cobra.Command, args []string, o *changeOptions) error {
	const form = "an id has 16 hexadecimal digits, as kubectl kausality pending lists it, and an object is TYPE/NAME"
	example := fmt.Sprintf(": %s 7642947475a29290, or %s xdatabase/orders", cmd.CommandPath(), cmd.CommandPath())
	if len(args) == 0 && !o.given() && o.cause == "" {
		return usageError{fmt.Errorf("name a difference or an object, or give --cause, --selector or --all; %s%s", form, example)}
	}
	if i := slices.IndexFunc(args, func(a string) bool { return !change.IsID(a) && almostID.MatchString(a) }); i >= 0 && !strings.Contains(args[0], "/") {
		return usageError{fmt.Errorf("%q is neither an id nor an object; %s%s", args[i], form, example)}
	}
	if len(args) == 1 && !o.given() && !change.IsID(args[0]) && !strings.Contains(args[0], "/") {
		return usageError{fmt.Errorf("%q is neither an id nor an object; %s%s", args[0], form, example)}
	}
	return nil
}

// almostID matches hexadecimal digits with a decimal one among them, which no type is.
var almostID = regexp.MustCompile(`^[0-9a-fA-F]*[0-9][0-9a-fA-F]*$`)

// driftFilter selects pending changes.
type driftFilter struct {
	// cause is the key of one; empty for all.
	cause string
	// selector of labels of the parents; empty for all.
	selector string
	// everywhere: in all namespaces.
	everywhere bool
}

// add adds the flags to a command that has no others which select objects.
func (o *driftFilter) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&o.cause, "cause", "", "Only changes of the cause with this key, as pending prints it.")
	fl.StringVarP(&o.selector, "selector", "l", "", "Only changes below parents with these labels, as in team=shop.")
	fl.BoolVarP(&o.everywhere, "all-namespaces", "A", false, "In all namespaces.")
}

// scope of a list of pending changes.
type scope struct {
	// where completes a sentence about them; args are the arguments that select the same
	// ones, with a space before each.
	where, args string
	// behind a freeze or a rejection: what cannot be approved meanwhile. freeze is that of the object that was named.
	behind []inspect.Behind
	freeze *identity.Freeze
}

// driftFinder finds the pending changes that a command line selects, as Drifts.
type driftFinder struct{ *session }

// selected Drifts: by their ids, those of the namespace or of all, or those about objects.
// group is true where the user did not name each (KR-12-21).
func (f driftFinder) selected(cmd *cobra.Command, args []string, o *changeOptions) (list []v1alpha1.Drift, group bool, err error) {
	switch {
	case o.all && (len(args) > 0 || o.selector != ""):
		return nil, false, usageError{errors.New("--all selects everything; give no arguments and no --selector with it")}
	case len(args) == 0 && (o.all || o.cause != "" || o.selector != ""):
		list, err := f.changes(cmd, o)
		return list, true, err
	case onlyIDs(args) && !o.filtered():
		list, err = f.identified(cmd, args, o.alsoResolved)
		return list, false, err
	case slices.ContainsFunc(args, change.IsID):
		return nil, false, usageError{errors.New("give ids or objects, not both, and no flags that select changes with ids")}
	}
	if err := misnamed(cmd, args, o); err != nil {
		return nil, false, err
	}
	if list, err = f.about(cmd, args, o); err == nil {
		list, err = withCause(list, o.cause)
	}
	return list, true, err
}

// changes returns the changes of the namespace, or of all. Those of external resources are left out unless
// their cause is named: what reverts or deletes them is a decision of its own (KR-12-22).
func (f driftFinder) changes(cmd *cobra.Command, o *changeOptions) ([]v1alpha1.Drift, error) {
	list, s, err := f.open(cmd, nil, &driftFilter{cause: o.cause, selector: o.selector, everywhere: o.everywhere})
	if err != nil {
		return nil, err
	}
	if o.cause == "" {
		list = f.withoutExternal(list, cmd, s)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("nothing waits for approval %s", s.where)
	}
	return list, nil
}

// withoutExternal leaves out changes of external resources, and prints how to decide about
// them.
func (f driftFinder) withoutExternal(list []v1alpha1.Drift, cmd *cobra.Command, s scope) []v1alpha1.Drift {
	var kept, external []v1alpha1.Drift
	for i := range list {
		if channel.IsExternal(&list[i]) {
			external = append(external, list[i])
			continue
		}
		kept = append(kept, list[i])
	}
	if len(external) == 0 {
		return kept
	}
	fmt.Fprintf(f.ErrOut, "Left out, since they are about external resources: %s. To decide about them, name their cause:\n",
		channel.Plural(len(external), "change"))
	for _, g := range channel.ByCause(external) {
		fmt.Fprintf(f.ErrOut, "  %s%s --cause %s (%s)\n", cmd.CommandPath(), s.args, g.Key, channel.Plural(len(g.Drifts), "change"))
	}
	return kept
}

// identified returns Drifts by their ids, if they are open; resolved ones are an error unless they are wanted, too.
func (f driftFinder) identified(cmd *cobra.Command, ids []string, alsoResolved bool) ([]v1alpha1.Drift, error) {
	conn, err := f.connection()
	if err != nil {
		return nil, err
	}
	list := make([]v1alpha1.Drift, 0, len(ids))
	for _, id := range ids {
		d, err := f.byID(cmd.Context(), conn, id)
		if err != nil {
			return nil, err
		}
		if !channel.Open(d) && !alsoResolved {
			return nil, fmt.Errorf("drift %s is resolved: %s; there is nothing to approve", id, d.Status.Resolution)
		}
		list = append(list, *d)
	}
	return list, nil
}

// about returns the open Drifts about objects, each difference once. Each object that is named must have a
// pending change, and at least one of those that a flag selects.
func (f driftFinder) about(cmd *cobra.Command, args []string, o *changeOptions) ([]v1alpha1.Drift, error) {
	targets, err := f.session.selected(cmd, args, &o.selectOptions)
	if err != nil {
		return nil, err
	}
	i, err := f.inspector(cmd.Context())
	if err != nil {
		return nil, err
	}
	var list []v1alpha1.Drift
	for _, t := range targets {
		if inspect.IsGraph(t.Unstructured) {
			return nil, errGraph(t)
		}
		all, err := i.About(cmd.Context(), t.Unstructured)
		if err != nil {
			return nil, err
		}
		last := lastApproved(all)
		open := openOf(all)
		switch {
		case len(open) > 0 || o.given():
		case last != "":
			return nil, fmt.Errorf("nothing waits for approval about %s: %s", t.describe(), last)
		default:
			return nil, fmt.Errorf("nothing waits for approval about %s; to approve any change in advance, give --any", t.describe())
		}
		for _, d := range open {
			if !slices.ContainsFunc(list, func(have v1alpha1.Drift) bool { return have.Name == d.Name && have.Namespace == d.Namespace }) {
				list = append(list, d)
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("nothing waits for approval about what is selected (%s); to approve any change in advance, give --any",
			channel.Plural(len(targets), "object"))
	}
	return list, nil
}

// errGraph refuses a decision about a graph: its instances hold what is decided about its revisions.
func errGraph(t target) error {
	return fmt.Errorf("%s is a graph, and decisions are about its instances: kubectl kausality pending %s lists what waits because of it, with the commands "+
		"that approve it", t.describe(), t.arg())
}

// byID finds a Drift, or what the function holds. Where there is only a resolved
// Drift of that id it is returned.
func (f driftFinder) byID(ctx context.Context, conn connection, id string) (*v1alpha1.Drift, error) {
	d, notFound := inspect.Find(ctx, conn, conn.namespace, id)
	if notFound == nil && channel.Open(d) {
		return d, nil
	}
	found, err := inspect.Held(ctx, conn, conn.mapper, conn.namespace)
	if err != nil {
		return nil, errors.Join(notFound, err)
	}
	f.notRead(found.Unread)
	held := found.Drifts
	for i := range held {
		if held[i].Name == id {
			return &held[i], nil
		}
	}
	return d, notFound
}

// open Drifts about an object, of the namespace, or of all namespaces, as a filter selects
// them.
func (f driftFinder) open(cmd *cobra.Command, args []string, o *driftFilter) (list []v1alpha1.Drift, s scope, err error) {
	if list, s, err = f.everyOpen(cmd, args, o); err != nil {
		return nil, s, err
	}
	if o.cause != "" || o.selector != "" { // about changes with a cause, or below some parents
		s.behind, s.freeze = nil, nil
	}
	if o.selector != "" {
		s.where += " below objects with labels " + o.selector
		s.args += " -l " + shellWord(o.selector)
		if list, err = f.below(cmd, list, o); err != nil {
			return nil, s, err
		}
	}
	if len(list) == 0 {
		return nil, s, nil
	}
	list, err = withCause(list, o.cause)
	return list, s, err
}

// everyOpen Drift about an object, of the namespace, or of all namespaces.
func (f driftFinder) everyOpen(cmd *cobra.Command, args []string, o *driftFilter) (list []v1alpha1.Drift, s scope, err error) {
	conn, err := f.connection()
	if err != nil {
		return nil, s, err
	}
	ns := conn.namespace
	s = scope{where: "in namespace " + ns, args: " -n " + ns}
	if o.everywhere {
		ns, s = "", scope{where: "in any namespace", args: " -A"}
	}
	if len(args) == 0 {
		found, err := inspect.Pending(cmd.Context(), conn, conn.mapper, ns)
		if err == nil && ns != "" && len(found.Drifts) == 0 {
			err = f.exists(cmd.Context(), conn, ns)
		}
		f.notRead(found.Unread)
		s.behind = found.Behind
		return found.Drifts, s, err
	}
	t, err := f.object(cmd, args)
	if err != nil {
		return nil, s, err
	}
	if inspect.IsGraph(t.Unstructured) {
		list, err = inspect.ByGraph(cmd.Context(), conn, t.Unstructured)
		return list, scope{where: "because of " + t.describe(), args: " -A"}, err
	}
	i, err := f.inspector(cmd.Context())
	if err != nil {
		return nil, s, err
	}
	found, err := i.WaitingAbout(cmd.Context(), t.Unstructured)
	if err != nil {
		return nil, s, err
	}
	f.notRead(found.Unread)
	s = scope{where: "about " + t.describe(), args: " " + t.arg(), behind: found.Behind}
	s.freeze, err = i.FreezeAbout(cmd.Context(), t.Unstructured)
	return openOf(found.Drifts), s, err
}

// exists reports an error where there is no such namespace, as far as the user may read that (KR-12-24).
func (f driftFinder) exists(ctx context.Context, client dynamic.Interface, ns string) error {
	namespaces := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	_, err := namespaces.Get(ctx, ns, metav1.GetOptions{})
	if !kerrors.IsNotFound(err) {
		return nil //nolint:nilerr // It is unknown, and nothing waits there as far as the user may read.
	}
	var names []string
	for o, err := range informer.Items(ctx, namespaces, informer.PageSize) {
		if err != nil {
			break
		}
		names = append(names, o.GetName())
	}
	if near := suggest.Nearest(ns, names); near != "" {
		return fmt.Errorf("there is no namespace %q; did you mean %q?", ns, near)
	}
	return fmt.Errorf("there is no namespace %q; -A lists all namespaces", ns)
}

// notRead prints what the user may not read, so that it is not listed (KR-12-19).
func (f driftFinder) notRead(unread []error) {
	for _, err := range unread {
		fmt.Fprintf(f.ErrOut, "Not read: %v. What the composition function holds there is listed only where a Drift exists; "+
			"a role with get and list on these objects shows the rest.\n", err)
	}
}

// below parents that have the labels of a filter.
func (f driftFinder) below(cmd *cobra.Command, list []v1alpha1.Drift, o *driftFilter) ([]v1alpha1.Drift, error) {
	conn, err := f.connection()
	if err != nil {
		return nil, err
	}
	return inspect.Below(cmd.Context(), conn, conn.mapper, list, conn.in(o.everywhere), o.selector)
}

// shellWord returns an argument as a shell takes it for one word.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9._:@/=,-]+$`)

// openAbout returns the open Drifts about an object or its children.
func openAbout(ctx context.Context, i *inspect.Inspector, t target) ([]v1alpha1.Drift, error) {
	all, err := i.About(ctx, t.Unstructured)
	if err != nil {
		return nil, err
	}
	return openOf(all), nil
}

// openOf returns those of some Drifts that are open.
func openOf(all []v1alpha1.Drift) []v1alpha1.Drift {
	return slices.DeleteFunc(all, func(d v1alpha1.Drift) bool { return !channel.Open(&d) })
}
