// Package steps is measured by a test.
package steps

import (
	"slices"

	"github.com/kausality-io/function-kausality/steps/other"
)

// A comment
/* of two
lines. */
type evaluation struct {
	base
	d      decision // the decision
	all    []decision
	byName map[string]*decision
	refs   [2]int
	count  *int
	out    other.Out
}

type base struct{ seen int }

type decision struct {
	allowed bool
	reason  string
}

type memo[T any] struct{ value T }

var steps = []func(*evaluation){
	func(ev *evaluation) { ev.seen++ },
	helper,
}

// Writes.

func (ev *evaluation) replace(x *evaluation) { *ev = *x }

func helper(ev *evaluation) { ev.d.allowed = true }

func alias(ev *evaluation) { d := &ev.d; d.reason = "" }

func whole(ev *evaluation) { ev.d = decision{} }

func element(ev evaluation) { ev.byName["x"].allowed, ev.all[0] = true, decision{} }

func closure(ev *evaluation) { func() { delete(ev.byName, "x") }() }

func ranged(ev *evaluation) {
	for ev.refs[0] = range 3 {
		_ = ev
	}
}

func address(ev *evaluation) *[2]int { return &ev.refs }

func outside(ev *evaluation) { slices.Clone(ev.all)[0].reason = "" }

func pointed(ev *evaluation) { (*ev.count)++ }

func abroad(ev *evaluation) { ev.out.Text = "" }

func (m *memo[T]) set(v T) { m.value = v }

// No writes.

func own(x *evaluation) decision {
	copied := *x
	copied.d.allowed, copied.refs[0] = true, 1
	copied.d = decision{allowed: true}
	d := &decision{reason: "literal"}
	return *d
}

func read(ev *evaluation) (*decision, bool) {
	_ = `
// no comment
`
	return &ev.d, ev.d.allowed
}
