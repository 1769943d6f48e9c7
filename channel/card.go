package channel

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	// maxIDs that a command line or a sentence has; more changes are named by their cause.
	maxIDs = 3
	// maxLacks is the number of sets of votes of one cause for which the missing votes are shown.
	maxLacks = 3
	// maxFields of a cause that are listed.
	maxFields = 5
)

// Card is what is shown of one cause, in every channel. Its texts may have any characters.
type Card struct {
	// Key names the cause on a command line.
	Key string
	// Title is what the cause is, as the beginning of a sentence, and Counts what it would change.
	Title, Counts string
	// Since when the oldest of its changes is held.
	Since metav1.Time
	// Causes with their authors, where these are known, a line each.
	Causes []string
	// Fields that change, the most frequent first, a line each; of many, the last line counts the others.
	Fields []string
	// Decided is what was decided about the changes, and what is missing, a line each.
	Decided []string
	// Approve is the command that approves all of it; empty where all is rejected.
	Approve string
}

// Entry is what is shown of one pending change.
type Entry struct {
	Drift *v1alpha1.Drift
	// Effect is operation and object, Change the same with its fields, in one line.
	Effect, Change string
	// Parent of the object.
	Parent string
	Since  metav1.Time
	// State is what was decided about it, in a word each; empty for nothing.
	State string
	// Decided is that in a line each, with what its votes lack.
	Decided []string
	// Actions that may be taken.
	Actions []Action
}

// CardOf returns the card of a group, without its changes, each of which EntryOf describes. ruling is what was decided about a change; args are the
// arguments of kubectl kausality that select the list, with a space before each.
func CardOf(g *Group, ruling func(*v1alpha1.Drift) Ruling, args string) *Card {
	in := ""
	if n := len(g.Namespaces()); n > 1 {
		in = " in " + Plural(n, "namespace")
	}
	c := &Card{
		Key: g.Key, Title: capitalized(g.Title), Counts: Plural(len(g.Drifts), "change") + " of " + Plural(g.Objects(), "object") + in,
		Since: Since(g.Oldest()), Causes: g.authors(), Decided: g.decided(ruling), Approve: g.approve(ruling, args),
	}
	if len(g.Drifts) == 1 && g.Key == KeyExternal {
		c.Causes = append(c.Causes, g.Drifts[0].Spec.Cause)
	}
	fields := g.fields()
	for n, f := range fields {
		if n == maxFields {
			c.Fields = append(c.Fields, fmt.Sprintf("%d other values of fields", len(fields)-n))
			break
		}
		c.Fields = append(c.Fields, f.Text+", "+Plural(f.Count, "time"))
	}
	return c
}

// EntryOf returns the entry of a change.
func EntryOf(d *v1alpha1.Drift, s Ruling) Entry {
	e := Entry{Drift: d, Effect: Effect(d), Change: Summary(d), Parent: Describe(d.Spec.Parent), Since: Since(d), State: State(d, s), Actions: ActionsOf(d, s)}
	if d.Status.Lacks != "" {
		e.Decided = append(e.Decided, "lacks: "+d.Status.Lacks)
	}
	e.Decided = append(e.Decided, RulingLines(d, s)...)
	return e
}
