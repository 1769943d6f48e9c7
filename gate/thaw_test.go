package gate

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/window"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// TestNoteFreeze: what a freeze held is woken once, when it has ended (KR-14-37).
func TestNoteFreeze(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	ends := metav1.NewTime(now.Add(time.Hour))
	f := &v1alpha1.Freeze{Expiry: &ends}
	c := &thaws{}
	step := func(what string, f *v1alpha1.Freeze, at time.Time, left time.Duration, ended bool) {
		t.Helper()
		if gotLeft, gotEnded := c.noteFreeze("Namespace/shop", f, at); gotLeft != left || gotEnded != ended {
			t.Errorf("%s: want %s, %t, got %s, %t", what, left, ended, gotLeft, gotEnded)
		}
	}
	step("never frozen", nil, now, 0, false)
	step("frozen", f, now, time.Hour, false)
	step("half an hour later", f, now.Add(time.Hour/2), time.Hour/2, false)
	step("at its expiry", f, ends.Time, 0, true)
	step("the annotation is removed", nil, ends.Time, 0, false)
	step("frozen without an end", &v1alpha1.Freeze{}, now, 0, false)
	step("unfrozen", nil, now, 0, true)
	step("changed otherwise", nil, now, 0, false)
	if _, ended := (&thaws{}).noteFreeze("Namespace/shop", f, ends.Time); !ended {
		t.Error("it ended while no process led")
	}
}

// TestConcerns: a freeze of a Namespace holds the children in it, too, of composites elsewhere (KR-14-37).
func TestConcerns(t *testing.T) {
	composite := func(namespace, child string) *states.Object {
		return &states.Object{State: &parent.State{Ref: parent.Ref{Namespace: namespace, Name: "db"}, Children: []parent.Ref{{Namespace: child, Name: "x"}}}}
	}
	for what, tc := range map[string]struct {
		o    *states.Object
		want bool
	}{
		"in it": {composite("shop", "shop"), true}, "child in it": {composite("", "shop"), true}, "elsewhere": {composite("other", "other"), false},
	} {
		if got := concerns(tc.o, "shop"); got != tc.want {
			t.Errorf("%s: got %t", what, got)
		}
	}
}

// TestNoteWindow: what waits for a window is woken once when it opens, and when its rule has none any more (KR-14-16).
func TestNoteWindow(t *testing.T) {
	c := &thaws{}
	step := func(what string, open, windowed, opened bool) {
		t.Helper()
		if got := c.noteWindow("office", window.State{Open: open}, windowed); got != opened {
			t.Errorf("%s: got %t", what, got)
		}
	}
	step("without windows", false, false, false)
	step("open before this process led", true, true, true)
	step("still open", true, true, false)
	step("closed", false, true, false)
	step("opened", true, true, true)
	step("closed again", false, true, false)
	step("the rule is gone", false, false, true)
	step("it stays so", false, false, false)
}
