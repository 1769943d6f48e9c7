package offline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// Note is the last intent of a composite that settled. The composed resources'
// traces show it too, but neither an intent that changed none of them, nor one
// whose resources are deleted. The zero Note is none.
type Note struct {
	// Generation at which the intent was first observed.
	Generation int64
	// At is the time of its hop, in UTC and whole seconds.
	At time.Time
	// State is a digest of the composite's desired state then; "" where it is unknown.
	State string
}

// Annotation is the value of v1alpha1.AnnotationKeySettledIntent; "" for none.
func (n Note) Annotation() string {
	if n == (Note{}) {
		return ""
	}
	raw, err := json.Marshal(v1alpha1.SettledIntent{Generation: n.Generation, At: metav1.NewTime(n.At.UTC()), State: n.State})
	if err != nil {
		return "" // numbers and times always marshal
	}
	return string(raw)
}

// String is the sentence for users in the message of the condition; "" for none.
func (n Note) String() string {
	if n == (Note{}) {
		return ""
	}
	return fmt.Sprintf("Settled at generation %d, asked for at %s.", n.Generation, n.At.UTC().Format(time.RFC3339))
}

// Later of two notes.
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

// stateOf a composite: the digest of its desired state; "" where it is unknown.
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

// noteOf a hop of the composite.
func noteOf(h v1alpha1.Hop) Note { return Note{Generation: h.Generation, At: h.Timestamp.UTC()} }

// NoteOn is the note of its composite that a composed resource carries, in its
// annotation or in its trace.
func NoteOn(s *parent.State) Note {
	out := parseNote(s.Annotations[v1alpha1.AnnotationKeySettledIntent])
	if t := trace.Of(s.Annotations); len(t) > 1 && t[len(t)-2].Settled {
		out = out.Later(noteOf(t[len(t)-2]))
	}
	return out
}

// noted of a composite by its observed resources and, for one release, by the
// message of its condition, where earlier releases stored it. A resource whose
// note has a generation that the composite has not reached is another composite's.
func noted(xr *unstructured.Unstructured, observed []*Resource) Note {
	out := MessageNote(xr.Object)
	for _, r := range observed {
		if n := parseNote(r.Annotation(v1alpha1.AnnotationKeySettledIntent)); n.Generation <= xr.GetGeneration() {
			out = out.Later(n)
		}
	}
	return out
}

// notePattern finds Note.String in a message.
var notePattern = regexp.MustCompile(`Settled at generation ([0-9]{1,18}), asked for at ([0-9TZ:-]{20})\.`)

// MessageNote is the note in the message of an observed composite's condition, the
// only place of one that composes nothing.
func MessageNote(xr map[string]any) Note {
	m := notePattern.FindStringSubmatch(ssa.Text(ssa.Condition(xr, v1alpha1.ConditionKausality), "message"))
	if m == nil {
		return Note{}
	}
	generation, err := strconv.ParseInt(m[1], 10, 64)
	at, terr := time.Parse(time.RFC3339, m[2])
	if err != nil || terr != nil {
		return Note{}
	}
	return Note{Generation: generation, At: at}
}
