package external

import (
	"cmp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Provenance of an external change, as it is written to the external system. It identifies the user who initiated the
// change, and the object whose change caused it: that of the first hop, or of the last unrequested one (KR-07-09). It
// depends on that origin hop of the trace alone, so that everything that one intent changes carries the same, in
// every replica and on every retry. The zero Provenance is unknown.
type Provenance struct {
	// TraceID is 16 hex digits of the SHA-256 over the origin hop. Two objects
	// changed by one intent share it; the next intent has another.
	TraceID string
	// Initiator is the user of the origin hop, Unattributed where unknown.
	Initiator string
	// Origin is the object and generation of the origin hop, as in
	// XDatabase.example.org/team-a/orders@4; the namespace is left out for
	// cluster-scoped objects, the name where it was yet to be generated, the
	// generation for kinds without one.
	Origin string
}

// Unattributed is the initiator of a change that was made while it was not observed.
const Unattributed = "unattributed"

// ProvenanceOf returns the Provenance of a trace, origin first. namespace is that of the object that carries the
// trace, "" for a cluster-scoped one: hops name their namespace only where it differs. An empty trace has the zero
// Provenance.
func ProvenanceOf(trace []v1alpha1.Hop, namespace string) Provenance {
	if len(trace) == 0 {
		return Provenance{}
	}
	h := trace[0]
	for _, below := range trace {
		if below.Unrequested {
			h = below
		}
	}
	at := h.Namespace
	if at == "" && !h.ClusterScoped {
		at = namespace
	}
	return Provenance{TraceID: traceID(h, at), Initiator: cmp.Or(h.User, Unattributed), Origin: origin(h, at)}
}

// traceIDLength is the number of hex digits of a TraceID.
const traceIDLength = 16

// traceID returns the TraceID of a hop. It leaves out the fields that may be added to a hop later: labels, approval,
// settled.
func traceID(h v1alpha1.Hop, namespace string) string {
	at := ""
	if !h.Timestamp.IsZero() {
		at = strconv.FormatInt(h.Timestamp.Unix(), 10)
	}
	return annotation.Digest([]string{h.APIVersion, h.Kind, namespace, h.Name, strconv.FormatInt(h.Generation, 10), h.User, at}, traceIDLength)
}

func origin(h v1alpha1.Hop, namespace string) string {
	gk := schema.FromAPIVersionAndKind(h.APIVersion, h.Kind).GroupKind()
	parts := []string{gk.String()}
	for _, p := range []string{namespace, h.Name} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	out := strings.Join(parts, "/")
	if h.Generation > 0 {
		out += "@" + strconv.FormatInt(h.Generation, 10)
	}
	return out
}
