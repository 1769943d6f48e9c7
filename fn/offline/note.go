package offline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// Note is the last intent of a composite that settled. The composed resources' traces show it too,
// but not if it changed none of them, or if those that it changed are deleted. The zero Note records
// no intent.
type Note struct {
	// Generation at which the intent was first observed.
	Generation int64
	// At is the time of its hop, in UTC and whole seconds.
	At time.Time
	// State is a digest of the composite's desired state then; "" where it is unknown.
	State string
}

// Annotation returns the value of v1alpha1.AnnotationKeySettledIntent; "" for none.
func (n Note) Annotation() string {
	if n == (Note{}) {
		return ""
	}
	return annotation.MustMarshal(v1alpha1.SettledIntent{Generation: n.Generation, At: metav1.NewTime(n.At.UTC()), State: n.State})
}

// String returns the sentence for users in the message of the condition; "" for none.
func (n Note) String() string {
	if n == (Note{}) {
		return ""
	}
	return fmt.Sprintf("Settled at generation %d, intent of %s.", n.Generation, n.At.UTC().Format(time.RFC3339))
}

// Later returns the later of two notes.
func (n Note) Later(o Note) Note {
	if o.Generation == n.Generation && o.At.Equal(n.At) {
		n.State = cmp.Or(n.State, o.State)
		return n
	}
	if o.Generation > n.Generation || o.Generation == n.Generation && o.At.After(n.At) {
		return o
	}
	return n
}

// stateOf returns the digest of a composite's desired state; "" where it is unknown.
func stateOf(s *parent.State) string {
	if s.Desired == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", s.Desired)
}

// parseNote reads v1alpha1.AnnotationKeySettledIntent; the zero Note for what does
// not parse.
func parseNote(value string) Note {
	s := v1alpha1.SettledIntent{}
	if value == "" || json.Unmarshal([]byte(value), &s) != nil {
		return Note{}
	}
	return Note{Generation: s.Generation, At: s.At.UTC(), State: s.State}
}

// noteOf returns the note of a hop of the composite.
func noteOf(h v1alpha1.Hop) Note { return Note{Generation: h.Generation, At: h.Timestamp.UTC()} }

// NoteOn returns the note of its composite that a composed resource carries, in its annotation or in
// its trace.
func NoteOn(s *parent.State) Note {
	out := parseNote(s.Annotations[v1alpha1.AnnotationKeySettledIntent])
	if t := trace.Of(s.Annotations); len(t) > 1 && t[len(t)-2].Settled {
		out = out.Later(noteOf(t[len(t)-2]))
	}
	return out
}

// noted returns the latest note of a composite, by its observed resources and its condition. A note of a
// generation that the composite has not reached is another composite's.
func noted(xr *unstructured.Unstructured, observed []*Resource) Note {
	var out Note
	if n := ConditionNote(xr.Object); n.Generation <= xr.GetGeneration() {
		out = n
	}
	for _, r := range observed {
		if n := parseNote(r.Annotation(v1alpha1.AnnotationKeySettledIntent)); n.Generation <= xr.GetGeneration() {
			out = out.Later(n)
		}
	}
	return out
}

// Reason returns the note as the reason of v1alpha1.ConditionSettled; "" for no note.
func (n Note) Reason() string {
	if n == (Note{}) {
		return ""
	}
	return fmt.Sprintf("Generation_%d_%d", n.Generation, n.At.Unix())
}

// ConditionNote returns the note in the condition of an observed composite; the zero Note for none.
func ConditionNote(xr map[string]any) Note {
	parts := strings.Split(ssa.Text(ssa.Condition(xr, v1alpha1.ConditionSettled), "reason"), "_")
	if len(parts) != 3 || parts[0] != "Generation" {
		return Note{}
	}
	generation, err := strconv.ParseInt(parts[1], 10, 64)
	at, terr := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || terr != nil {
		return Note{}
	}
	return Note{Generation: generation, At: time.Unix(at, 0).UTC()}
}
