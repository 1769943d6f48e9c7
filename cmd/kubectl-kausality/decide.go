package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kausality-io/function-kausality/cli/annotate"
)

// naming is how a person said what is meant. What was named as one thing is done
// at once; whatever else is shown first, and asked about.
type naming int

const (
	// byID of differences, which were shown with their ids.
	byID naming = iota
	// byName: one object, or several.
	byName
	// asGroup: the person did not name each.
	asGroup
)

// intended is one annotation that a command is to write.
type intended struct {
	on target
	// head says what it is about; on, where it is empty.
	head string
	key  string
	edit annotate.Edit
	// next is what happens then. Of what only takes back it is so where there is
	// something to take back.
	next     string
	takeBack bool
	// warn of what stands against it, once it is written; nil warns of nothing.
	warn func(context.Context, target) ([]string, error)
	// also: it is a second annotation of what the one before is about.
	also bool
	// wrong is why nothing is to be written; edit is nil then.
	wrong error
}

// decision of a person about something.
type decision struct {
	named naming
	list  []intended
	// question with the place of what is meant, as in "Freeze %s?", and what that
	// is, as in "object".
	question, what string
	// differences with their ids are the heads: they say what is done, and the
	// annotations are shown in a dry run alone.
	differences bool
}

// step is what is written of an intention.
type step struct {
	intended
	change annotate.Change
}

// decide shows, asks and writes. This is the rule for all commands that write
// annotations: one thing that was named is written at once, and for several the
// difference is shown, and there is one question. What was shown is written, or
// nothing; what cannot be written is left out, and an error at the end.
func (c *cli) decide(ctx context.Context, o *decisionOptions, d decision) error {
	if d.named == byID || d.named == byName && count(d.list) == 1 {
		return c.writeAll(ctx, o, d.list, nil)
	}
	steps, left := c.plan(ctx, d)
	if o.dryRun == string(annotate.DryRunClient) && o.format.value == formatTable {
		c.show(c.Out, steps, false)
		fmt.Fprintln(c.ErrOut, "Nothing was written: it is a dry run.")
		return left
	}
	changes := c.show(c.ErrOut, steps, d.differences)
	if changes > 0 && o.dryRun == "none" {
		if err := c.confirm(fmt.Sprintf(d.question, these(changes, d.what)), o.yes, d.instead()); err != nil {
			return err
		}
	}
	list := make([]intended, 0, len(steps))
	for _, s := range steps {
		if s.wrong == nil && (!s.change.Unchanged || d.named == byName) {
			s.edit = annotate.AsShown(s.change, s.edit)
			list = append(list, s.intended)
		}
	}
	return c.writeAll(ctx, o, list, left)
}

// count what is meant.
func count(list []intended) (n int) {
	for _, i := range list {
		if !i.also {
			n++
		}
	}
	return n
}

// plan what is written of each; left says how many are left out.
func (c *cli) plan(ctx context.Context, d decision) (steps []step, left error) {
	without := 0
	for _, i := range d.list {
		s := step{intended: i}
		if s.wrong == nil {
			s.change, s.wrong = i.writer(annotate.DryRunClient).Annotate(ctx, i.key, i.edit)
		}
		if s.wrong != nil {
			without++
		}
		steps = append(steps, s)
	}
	if without > 0 {
		left = fmt.Errorf("left out %d of %s, as said above", without, plural(count(d.list), d.what))
	}
	return steps, left
}

// show what is planned, and return how many are changed.
func (c *cli) show(out io.Writer, steps []step, brief bool) (changed int) {
	same, titled := 0, false
	for _, s := range steps {
		titled = titled && s.also
		switch {
		case s.wrong != nil:
			fmt.Fprintf(out, "  %s\n      %s%s\n", s.title(), c.paint.yellow("left out:"), " "+s.wrong.Error())
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
		fmt.Fprintf(out, "  %d of %d stay as they are.\n", same, len(steps))
	}
	return changed
}

func (s *step) show(out io.Writer) {
	for _, d := range s.change.Differences() {
		fmt.Fprintf(out, "      %s: %s\n", s.key, d)
	}
	if s.next != "" {
		fmt.Fprintf(out, "      %s\n", s.next)
	}
}

func (i *intended) writer(dry annotate.DryRun) annotate.Writer {
	return annotate.Writer{Client: i.on.client, Name: i.on.GetName(), UID: i.on.GetUID(), DryRun: dry}
}

func (i *intended) title() string {
	if i.head != "" {
		return i.head
	}
	return i.on.describe()
}

// writeAll in their order, and go on where one fails.
func (c *cli) writeAll(ctx context.Context, o *decisionOptions, list []intended, failed error) error {
	done := make([]written, 0, len(list))
	for _, i := range list {
		w, err := c.write(ctx, o, i)
		failed = errors.Join(failed, err)
		if w.Key != "" { // written, even where reading what stands against it failed
			done = append(done, w)
		}
	}
	return c.report(o, done, failed)
}

// of an object whose parent holds what is decided about it.
func of(t, holder target) string {
	if t.ref() == holder.ref() {
		return t.describe()
	}
	return t.describe() + ", on " + holder.describe()
}

// these things, as in "these 3 objects".
func these(n int, what string) string {
	if n == 1 {
		return "this " + what
	}
	return "these " + plural(n, what)
}

// instead of an answer, where nobody can be asked.
func (d *decision) instead() string {
	if d.differences {
		return ", or the ids of what you mean"
	}
	return ", or name one object; --dry-run shows what would be written"
}
