package drift

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// What stands in the way of a Drift's end is told once, not with every round; again
// where it is something else, or came back, and nothing is kept of Drifts that are
// no more.
func TestToldOnce(t *testing.T) {
	lines := 0
	r := &Resolver{Log: funcr.New(func(string, string) { lines++ }, funcr.Options{})}
	drift := func(uid types.UID) *v1alpha1.Drift { return &v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{UID: uid}} }
	a, b := drift("a"), drift("b")
	forbidden, away := errors.New("forbidden"), errors.New("away")
	for i, step := range []struct {
		drift *v1alpha1.Drift
		err   error
		lines int
	}{
		{a, forbidden, 1}, {a, forbidden, 1}, {b, forbidden, 2}, {a, away, 3}, {a, forbidden, 4}, {a, context.Canceled, 4},
		{a, nil, 4}, {a, forbidden, 5}, {b, forbidden, 5},
	} {
		if r.log(step.drift, step.err); lines != step.lines {
			t.Fatalf("step %d: %d lines, want %d", i, lines, step.lines)
		}
	}
	r.forget(&v1alpha1.DriftList{Items: []v1alpha1.Drift{*b}})
	if r.log(b, forbidden); lines != 5 || len(r.logged) != 1 {
		t.Errorf("%d lines, %v", lines, r.logged)
	}
	if r.log(a, forbidden); lines != 6 {
		t.Errorf("%d lines", lines)
	}
}

// Whoever waits for a live read is first in the next round, whatever order the cache
// has, and holds up nobody who needs none.
func TestRounds(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	r := &Resolver{Log: logr.Discard()}
	seen, free := map[string]int{}, 0
	for range len(names) {
		list := &v1alpha1.DriftList{}
		for _, i := range rand.Perm(len(names)) {
			list.Items = append(list.Items, v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: names[i]}})
		}
		list.Items = append(list.Items, v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "bb"}, Status: v1alpha1.DriftStatus{Phase: v1alpha1.DriftResolved}})
		reads := 3
		r.next = r.each(inTurn(list, r.next), func(d *v1alpha1.Drift) error {
			switch {
			case d.Name == "d":
				free++
				return nil
			case reads == 0:
				return errNoReads
			}
			reads--
			seen[d.Name]++
			return nil
		})
	}
	if free != len(names) {
		t.Errorf("what needs no read got %d turns in %d rounds", free, len(names))
	}
	for _, n := range names {
		if want := 3 * len(names) / (len(names) - 1); n != "d" && seen[n] != want && seen[n] != want+1 {
			t.Errorf("%s got %d turns of %v", n, seen[n], seen)
		}
	}
	if seen["bb"] > 0 {
		t.Error("what is resolved is looked at")
	}
}
