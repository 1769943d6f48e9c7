package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
	kerrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

// selection is how the objects of a decision were selected. A single object that
// was named is written at once; everything else is shown first and confirmed.
type selection int

const (
	// byID of differences, which were listed with their ids.
	byID selection = iota
	// byName of one object, or of several.
	byName
	// asGroup: the user did not name each.
	asGroup
)

// annotationWrite is one annotation that a command is to write.
type annotationWrite struct {
	on target
	// head is the title of what it is about; the object itself where it is empty.
	head string
	key  string
	edit annotate.Edit
	// next describes what happens then. Of a removal it is printed only where
	// there was something to remove.
	next      string
	isRemoval bool
	// warn returns what prevents it from having an effect, once it is written;
	// nil warns of nothing.
	warn func(context.Context, target) ([]string, error)
	// judge returns what it has led to, in place of next, once it was sent; nil where next is certain.
	judge func(context.Context, annotate.Change) (verdict, error)
	// followsPrevious: it is a second annotation of what the one before is about.
	followsPrevious bool
	// drift is the pending change that it is about; nil where it is about an object.
	drift *v1alpha1.Drift
	// err is why nothing is to be written; edit is nil then.
	err error
}

// writer returns the writer of the annotation, bound to the object that the user saw by its UID.
func (w *annotationWrite) writer(dry annotate.DryRun) annotate.Writer {
	return annotate.Writer{Client: w.on.client, Name: w.on.GetName(), UID: w.on.GetUID(), DryRun: dry}
}

// title returns the title of the object where what would be written is shown.
func (w *annotationWrite) title() string {
	if w.head != "" {
		return w.head
	}
	return w.on.describe()
}

// planned describes what happens once it is written: only the API server's answer shows what a judged one leads to.
func (w *annotationWrite) planned() string {
	if w.judge != nil {
		return "Whether that is enough is known once it is sent; --dry-run=server shows it and stores nothing."
	}
	return w.next
}

// decision of a user about one object or several.
type decision struct {
	selection selection
	list      []annotationWrite
	// question has a verb for the objects, as in "Freeze %s?"; noun is what they
	// are called, as in "object".
	question, noun string
	// differences with their ids are the heads: they describe the change, so that
	// the annotations are shown in a dry run only.
	differences bool
	// limit is how many of them are changed; 0 for all.
	limit int
}

// nonInteractiveHint completes the error where there is no terminal to confirm
// on: what to give instead.
func (d *decision) nonInteractiveHint() string {
	if d.differences {
		return ", or the ids of the changes"
	}
	return ", or name one object; --dry-run shows what would be written"
}

// count counts the objects of a list of writes.
func count(list []annotationWrite) (n int) {
	for _, w := range list {
		if !w.followsPrevious {
			n++
		}
	}
	return n
}

// step is a write with the change that it makes.
type step struct {
	annotationWrite
	change annotate.Change
}

// writer shows, confirms, writes and reports the annotations of one command.
type writer struct {
	*session
	*writeOptions
}

// decide decides follows one rule for all commands that write annotations: one object
// that was named is written at once; for several, the difference is shown and
// confirmed once. What was shown is written, or nothing is. What cannot be
// written is left out, and is an error in the end.
func (w writer) decide(ctx context.Context, d decision) error {
	_, err := w.decided(ctx, d)
	return err
}

// decided is decide, and returns what has been decided as wanted, now or before.
func (w writer) decided(ctx context.Context, d decision) ([]annotationWrite, error) {
	if d.selection == byID || d.selection == byName && count(d.list) == 1 {
		return d.list, w.writeAll(ctx, d.list, nil)
	}
	steps, rest, left := plan(ctx, d)
	if rest > 0 {
		defer fmt.Fprintf(w.ErrOut, "%d more are left, since --limit is %d; the same command goes on with them.\n", rest, d.limit)
	}
	if w.dryRun == annotate.DryRunClient && w.format.value == formatTable {
		w.show(w.Out, steps, false)
		fmt.Fprintln(w.ErrOut, "Nothing was written: it is a dry run.")
		return nil, left
	}
	changes := w.show(w.ErrOut, steps, d.differences)
	if changes > 0 && w.dryRun == dryNone {
		if err := w.confirm(fmt.Sprintf(d.question, pluralize(changes, d.noun)), w.yes, d.nonInteractiveHint()); err != nil {
			return nil, err
		}
	}
	var done []annotationWrite
	list := make([]annotationWrite, 0, len(steps))
	for _, s := range steps {
		done = append(done, s.annotationWrite)
		if s.err == nil && (!s.change.Unchanged || d.selection == byName) {
			s.edit = annotate.AsShown(s.change, s.edit)
			list = append(list, s.annotationWrite)
		}
	}
	return done, w.writeAll(ctx, list, left)
}

// plan plans the change of each write; left counts those that are left out. rest is how
// many are left for the next time by the limit: those that have the annotation already do
// not count towards it, so that the same command goes on where it ended (KR-12-22).
func plan(ctx context.Context, d decision) (steps []step, rest int, left error) {
	without, changed := 0, 0
	for n, w := range d.list {
		if d.limit > 0 && changed >= d.limit && !w.followsPrevious {
			rest = count(d.list[n:])
			break
		}
		s := step{annotationWrite: w}
		if s.err == nil {
			s.change, s.err = w.writer(annotate.DryRunClient).Annotate(ctx, w.key, w.edit)
		}
		switch {
		case s.err != nil:
			without++
		case !s.change.Unchanged && !s.followsPrevious:
			changed++
		}
		steps = append(steps, s)
	}
	if without > 0 {
		left = fmt.Errorf("left out %d of %s, see above", without, channel.Plural(count(d.list), d.noun))
	}
	return steps, rest, left
}

// show shows what is planned, and returns how many objects are changed.
func (w writer) show(out io.Writer, steps []step, brief bool) (changed int) {
	same, titled := 0, false
	for _, s := range steps {
		titled = titled && s.followsPrevious
		switch {
		case s.err != nil:
			fmt.Fprintf(out, "  %s\n      %s%s\n", s.title(), w.view.yellow("left out:"), " "+s.err.Error())
			continue
		case s.change.Unchanged:
			same++
			continue
		}
		if !titled {
			titled = true
			changed++
			fmt.Fprintf(out, "  %s\n", s.title())
		}
		if !brief {
			s.show(out)
		}
	}
	if same > 0 {
		fmt.Fprintf(out, "  %d of %d are unchanged.\n", same, len(steps))
	}
	return changed
}

// show shows the differences of one annotation and what happens next.
func (s *step) show(out io.Writer) {
	for _, d := range s.change.Differences() {
		fmt.Fprintf(out, "      %s: %s\n", s.key, d)
	}
	if next := s.planned(); next != "" {
		fmt.Fprintf(out, "      %s\n", next)
	}
}

// writeAll writes annotations in their order, and continues where one fails.
func (w writer) writeAll(ctx context.Context, list []annotationWrite, failed error) error {
	done, discounted := make([]written, 0, len(list)), false
	reported := map[string]bool{}
	for _, one := range list {
		r, err := w.write(ctx, one)
		if err != nil && reported[err.Error()] { // about the same object
			err = nil
		} else if err != nil {
			reported[err.Error()] = true
		}
		failed, discounted = errors.Join(failed, err), discounted || r.Discounted
		if r.Key != "" { // written, even where reading the warnings failed
			done = append(done, r)
		}
	}
	if err := w.report(done, failed); err != nil || !discounted {
		return err
	}
	return errDiscounted
}

// written is one annotation of one object, as -o json prints it.
type written struct {
	Object v1alpha1.ObjectReference `json:"object"`
	annotate.Change
	DryRun annotate.DryRun `json:"dryRun,omitempty"`
	// Warnings are what prevents it from having an effect; Next is what happens
	// now. Both are sentences for the user.
	Warnings []string `json:"warnings,omitempty"`
	Next     string   `json:"next,omitempty"`
	// Discounted: it is written, and has no effect, as a vote that does not count; Next is why.
	Discounted bool `json:"discounted,omitempty"`

	slashed string
}

// write writes one annotation. Where it is written and reading the warnings fails, both
// are returned.
func (w writer) write(ctx context.Context, one annotationWrite) (written, error) {
	if one.err != nil {
		return written{}, one.err
	}
	dry := w.dry()
	change, err := one.writer(dry).Annotate(ctx, one.key, one.edit)
	if err != nil {
		return written{}, fmt.Errorf("%s: %w%s", one.on.describe(), err, whoMay(err))
	}
	r := written{Object: identity.ObjectReference(one.on.ref(), 0, ""), Change: change, DryRun: dry, slashed: one.on.slashed()}
	if !one.isRemoval || !change.Unchanged {
		r.Next = one.next
	}
	if dry == annotate.DryRunClient {
		r.Next = one.planned()
	}
	if one.warn != nil {
		r.Warnings, err = one.warn(ctx, one.on)
	}
	if one.judge != nil && change.Has != nil {
		v, jerr := one.judge(ctx, change)
		r.Next, r.Discounted, err = v.next, v.discounted, errors.Join(err, jerr)
	}
	return r, err
}

// whoMay completes the error of a write that needs the right to approve.
func whoMay(err error) string {
	if kerrors.IsForbidden(err) && strings.Contains(err.Error(), string(outcome.ReasonApproverForbidden)) {
		return " kubectl kausality approvers lists who has it."
	}
	return ""
}

// report prints what was written, and returns what failed. Where nothing was written and
// something failed, only the error is printed.
func (w writer) report(list []written, failed error) error {
	if len(list) == 0 && failed != nil {
		return failed
	}
	if done, err := w.format.structured(w.Out, list); done {
		return errors.Join(err, failed)
	}
	for _, r := range list {
		if w.format.value == formatName {
			fmt.Fprintln(w.Out, r.slashed)
			continue
		}
		w.line(r)
	}
	return failed
}

// line prints one annotation, with its warnings and what happens next.
func (w writer) line(r written) {
	what := "annotated: " + r.Key
	switch {
	case r.Unchanged && r.After == nil:
		what = "unchanged: it has no " + r.Key
	case r.Unchanged:
		what = "unchanged: " + r.Key + "=" + *r.After
	case r.After == nil:
		what = "annotation removed: " + r.Key
	default:
		what += "=" + *r.After
	}
	switch r.DryRun {
	case annotate.DryRunClient:
		what += " (dry run)"
	case annotate.DryRunServer:
		what += " (server dry run)"
	}
	fmt.Fprintf(w.Out, "%s %s\n", w.view.bold(r.slashed), what)
	for _, s := range r.Warnings {
		fmt.Fprintln(w.Out, "  "+w.view.yellow("warning: "+s))
	}
	if r.Next != "" {
		fmt.Fprintln(w.Out, "  "+r.Next)
	}
}

// confirm confirms prompts the user at a terminal. Without one it needs --yes, or what hint
// names.
func (s *session) confirm(question string, yes bool, hint string) error {
	if yes {
		return nil
	}
	f, ok := s.In.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return usageError{errors.New("there is no terminal to confirm on; give --yes" + hint)}
	}
	fmt.Fprintf(s.ErrOut, "%s [y/N] ", question)
	answer, err := bufio.NewReader(s.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was written")
}

// about names an object in a title, with the holder of what is decided about it
// where that is another one.
func about(t, holder target) string {
	if t.ref() == holder.ref() {
		return t.describe()
	}
	return t.describe() + ", on " + holder.describe()
}

// pluralize pluralizes a noun in a question, as in "this object" and "these 3 objects".
func pluralize(n int, noun string) string {
	if n == 1 {
		return "this " + noun
	}
	return "these " + channel.Plural(n, noun)
}
