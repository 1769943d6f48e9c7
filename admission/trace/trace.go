package trace

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Trace of an object: origin first, the object's own hop last. nil and the empty
// Trace are that of an object without one.
type Trace []v1alpha1.Hop

// parsed traces by the annotations they were read from, of at most maxParsed
// objects. Decoding takes ten times as long as the rest of a decision that needs
// it, the same trace is read for each hop that it leads to, and most requests
// leave it as it is.
var parsed = lru.New(maxParsed)

const (
	maxParsed = 1024
	// maxParsedBytes of an annotation that is kept, so that all of them take a
	// few MiB at most.
	maxParsedBytes = 4096
)

// Parse parses a trace annotation: JSON as String writes it, or YAML. Unknown fields are ignored; "" is
// the empty trace. The caller may modify the hops, but not their Labels, Approval and Causes.
func Parse(value string) (Trace, error) {
	if value == "" {
		return nil, nil
	}
	if known, ok := parsed.Get(value); ok {
		t, _ := known.(Trace)
		return slices.Clone(t), nil
	}
	var t Trace
	if err := annotation.Unmarshal(value, annotation.MaxSystem, &t); err != nil {
		return nil, fmt.Errorf("cannot parse trace: %w", err)
	}
	if len(value) <= maxParsedBytes {
		parsed.Add(strings.Clone(value), slices.Clone(t)) // not the object that the annotation is a part of
	}
	return t, nil
}

// Of returns the stored trace of annotations; what does not parse counts as no
// trace, since only we write it.
func Of(annotations map[string]string) Trace {
	t, _ := Parse(annotations[v1alpha1.AnnotationKeyTrace]) // nil where it does not parse
	return t
}

// String returns the annotation's value: single-line JSON.
func (t Trace) String() string {
	return annotation.MustMarshal(t)
}

// Own returns the hop of the object that carries the trace; nil for an empty trace.
func (t Trace) Own() *v1alpha1.Hop {
	if len(t) == 0 {
		return nil
	}
	return &t[len(t)-1]
}

// Origin returns the hop that initiated the trace: the first, or the last unrequested one. Hops before
// that did not initiate it (KR-07-09). It is nil for an empty trace.
func (t Trace) Origin() *v1alpha1.Hop {
	for i := len(t) - 1; i > 0; i-- {
		if t[i].Unrequested {
			return &t[i]
		}
	}
	if len(t) == 0 {
		return nil
	}
	return &t[0]
}

// Labels returns the labels of an object's own hop, from its trace-* annotations; nil where it has no
// such annotation (KR-07-06).
func Labels(annotations map[string]string) map[string]string {
	var out map[string]string
	for k, v := range annotations {
		if name, ok := strings.CutPrefix(k, v1alpha1.AnnotationKeyTraceLabelPrefix); ok && name != "" {
			if out == nil {
				out = map[string]string{}
			}
			out[name] = v
		}
	}
	return out
}

// Hop returns the hop for a write to the object that ref names.
func Hop(ref parent.Ref, generation int64, user string, at time.Time) v1alpha1.Hop {
	apiVersion, kind := ref.ToAPIVersionAndKind()
	return v1alpha1.Hop{
		APIVersion: apiVersion, Kind: kind, Name: ref.Name, Generation: generation,
		User: user, Timestamp: metav1.NewTime(at.UTC().Truncate(time.Second)),
	}
}

// Extend returns the trace of a parent with a hop of its child at the end: the namespaces of the
// parent's hops are given where they differ from the child's.
func Extend(of Trace, from parent.Ref, hop v1alpha1.Hop, carrierNamespace string) Trace {
	out := make(Trace, 0, len(of)+1)
	for _, h := range of {
		out = append(out, Rebase(h, from.Namespace, carrierNamespace))
	}
	return append(out, hop)
}

// Rebase moves a hop from a carrier in one namespace to a carrier in another. Within one namespace it
// stays as it is (KR-07-03).
func Rebase(h v1alpha1.Hop, from, to string) v1alpha1.Hop {
	at := NamespaceOf(h, from)
	h.Namespace, h.ClusterScoped = "", false
	switch {
	case at == to:
	case at == "":
		h.ClusterScoped = true
	default:
		h.Namespace = at
	}
	return h
}

// NamespaceOf returns the namespace of the object of a hop, given that of the hop's carrier; "" where it
// is cluster-scoped.
func NamespaceOf(h v1alpha1.Hop, carrier string) string {
	if h.Namespace == "" && !h.ClusterScoped {
		return carrier
	}
	return h.Namespace
}

// Tolerance is how much later than its hop a write may be in managedFields: the
// time is cut to whole seconds, and other webhooks may be called between this one
// and the store. It errs on the side of drift, which an approval resolves.
const Tolerance = 5 * time.Second

// Intent returns the hop of an object's last intent. An object that was never traced, and one whose
// desired state was changed while it was not observed, gets an unattributed hop at its current
// generation (KR-01-10, KR-01-12); not where the desired state is still the one at which it settled
// (KR-01-11). recorded is false where the hop is not in the object's own trace yet (KR-01-08).
func Intent(s *parent.State) (hop v1alpha1.Hop, recorded bool) {
	own := Of(s.Annotations).Own()
	if own == nil {
		return Unattributed(s, s.Generation, s.Created), false
	}
	if s.Generation == 0 || s.Generation > own.Generation {
		switch kept := keptBy(s); {
		case kept > own.Generation:
			return Unattributed(s, kept, s.IntentTime), false
		case kept > 0 && kept == own.Generation:
			return *own, true
		}
		// The API server writes such an entry for /scale alone, and the hop of one has
		// its very time: there is nothing to tolerate. But any editor can write one, too
		// (KR-13-05).
		if s.ScaleTime.After(own.Timestamp.Time) && !s.AsSettled(own.Generation) {
			return Unattributed(s, s.Generation, s.ScaleTime), false
		}
		// An entry of managedFields has one time for all that its manager owns: a
		// label written by the manager that wrote the spec looks like an intent.
		since := own.Timestamp.Add(Tolerance)
		if own.Unattributed || s.SettledOtherwise(own.Generation) { // an unattributed hop has the time of an entry itself (KR-13-75)
			since = own.Timestamp.Time
		}
		if s.IntentTime.After(since) && !s.AsSettled(own.Generation) {
			return Unattributed(s, s.Generation, s.IntentTime), false
		}
	}
	return *own, true
}

// Kept returns the intent generation to record with a transition of the gate of an object, in a write
// that is no intent and brings about a generation; 0 where what it leaves shows the same one (KR-01-10).
func Kept(before, after *parent.State, generation int64) int64 {
	was, _ := Intent(before)
	left := *after
	left.Generation, left.Annotations = generation, maps.Clone(after.Annotations)
	delete(left.Annotations, v1alpha1.AnnotationKeyGate)
	if is, _ := Intent(&left); is.Generation == was.Generation {
		return 0
	}
	return was.Generation
}

// keptBy returns the intent generation that is recorded in the gate of an object; 0 where none is that can
// be, or where the object has changed since.
func keptBy(s *parent.State) int64 {
	value := s.Annotations[v1alpha1.AnnotationKeyGate]
	if s.Generation == 0 || !strings.Contains(value, `"intent"`) { // as almost all
		return 0
	}
	var g v1alpha1.Gate
	if json.Unmarshal([]byte(value), &g) != nil || g.Generation != s.Generation || g.Intent > g.Generation {
		return 0
	}
	return g.Intent
}

// Unattributed returns the hop of an intent whose user was not observed, with the labels that the
// object has now (KR-07-04).
func Unattributed(s *parent.State, generation int64, at time.Time) v1alpha1.Hop {
	h := Hop(s.Ref, generation, "", at)
	h.Unattributed, h.Labels = true, Labels(s.Annotations)
	return h
}

// Current returns the current trace of an object: the stored one, or an unattributed hop where Intent
// finds that to be the truth.
func Current(s *parent.State) Trace {
	hop, recorded := Intent(s)
	if recorded {
		return Of(s.Annotations)
	}
	return Trace{hop}
}

// Authors returns the users to whom the trace in the annotations leads back: who initiated it, and who
// made the intents from a generation of the object on (KR-14-61). A user who is not known is "". It is
// nil for an object without a trace.
func Authors(annotations map[string]string, since int64) []string {
	var out []string
	add := func(user string) {
		if !slices.Contains(out, user) {
			out = append(out, user)
		}
	}
	t := Of(annotations)
	if origin := t.Origin(); origin != nil {
		add(origin.User)
	}
	list := initiators(annotations, t)
	for _, i := range list {
		if i.Generation >= since {
			add(i.User)
		}
	}
	if len(list) > 0 && since < list[0].Generation {
		add("") // there may have been others
	}
	return out
}

// initiators returns the recorded initiators of intents of an object; that of its trace where the annotation is not
// set, or does not parse.
func initiators(annotations map[string]string, t Trace) (out []v1alpha1.Initiator) {
	if value := annotations[v1alpha1.AnnotationKeyAuthors]; value != "" && json.Unmarshal([]byte(value), &out) == nil && len(out) > 0 {
		return out
	}
	if own := t.Own(); own != nil {
		return []v1alpha1.Initiator{{User: t.Origin().User, Generation: own.Generation}}
	}
	return nil
}

// WithInitiator returns the value of the authors annotation after an intent: its user is the newest
// one.
func WithInitiator(annotations map[string]string, user string, generation int64) string {
	list := initiators(annotations, Of(annotations))
	list = slices.DeleteFunc(list, func(i v1alpha1.Initiator) bool { return i.User == user })
	list = append(list, v1alpha1.Initiator{User: user, Generation: generation})
	return annotation.MustMarshal(list[max(0, len(list)-v1alpha1.MaxInitiators):])
}

// Last returns the trace of an object's last change, for a reader: the current one. gate is the generation of a transition of its gate after which
// only Crossplane applied the object, 0 for none: where that is the last generation, the stored trace is still that of the last change, since an
// apply of an annotation alone has the time of all that is applied. recorded is false where the change was not observed.
func Last(s *parent.State, gate int64) (t Trace, recorded bool) {
	hop, recorded := Intent(s)
	stored := Of(s.Annotations)
	if recorded || len(stored) > 0 && gate > 0 && gate == s.Generation {
		return stored, true
	}
	return Trace{hop}, false
}
