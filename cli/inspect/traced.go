package inspect

import (
	"cmp"
	"context"
	"slices"
	"strings"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/carry"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
)

// Traced is what a trace id belongs to (KR-12-33).
type Traced struct {
	// ID as external systems have it: 16 hex digits.
	ID string `json:"id"`
	// Origin is the intent that has the id, its namespace absolute; nil where only tags or a Terraform variable have the id.
	Origin *v1alpha1.Hop `json:"origin,omitempty"`
	// Record of the intent in the history, where it was found there, and the name or UID of the cluster that it is from.
	Record  string `json:"record,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	// Objects that have the id, by kind, namespace and name, at most MaxTraced; More is how many further ones there are.
	Objects []TracedObject `json:"objects"`
	More    int            `json:"more,omitempty"`
	// Kinds that were read, and how many objects of them.
	Kinds int `json:"kinds"`
	Read  int `json:"read"`
	// Unread are the resources that the user may not list.
	Unread []string `json:"unread,omitempty"`
}

// TracedObject has a trace id.
type TracedObject struct {
	Object v1alpha1.ObjectReference `json:"object"`
	// Hop of its last change, its namespace absolute; nil where its trace has another id.
	Hop *v1alpha1.Hop `json:"hop,omitempty"`
	// Initiator and Origin as its tags or its Terraform variables have them, where its trace has another id: it was changed since.
	Initiator string `json:"initiator,omitempty"`
	Origin    string `json:"origin,omitempty"`
}

// MaxTraced bounds the objects of one trace id that are kept.
const MaxTraced = 1000

// Traced returns what a trace id belongs to: the objects of the kinds with a role in Crossplane, and of those that Flux and Argo CD apply to external
// systems, in a namespace, or, where it is empty, in all namespaces and cluster-scoped. Objects are read in pages.
func (i *Inspector) Traced(ctx context.Context, id, namespace string) (*Traced, error) {
	out := &Traced{ID: id, Objects: []TracedObject{}}
	err := i.Direct.EachKind(ctx, crdPage, func(info kinds.Info) error {
		if info.Role == parent.RoleNone && !verb.IsForeign(info.GVK.GroupKind()) || namespace != "" && !info.Namespaced {
			return nil
		}
		return out.list(ctx, i.Direct, info, namespace)
	})
	if err != nil {
		return nil, err
	}
	out.Unread = append(out.Unread, i.Direct.Unread()...)
	slices.SortFunc(out.Objects, func(a, b TracedObject) int {
		x, y := a.Object, b.Object
		return cmp.Or(strings.Compare(x.Kind, y.Kind), strings.Compare(x.APIVersion, y.APIVersion), strings.Compare(x.Namespace, y.Namespace),
			strings.Compare(x.Name, y.Name))
	})
	return out, nil
}

// list lists the objects of one kind, and adds those that have the id. One that the user may not list is left out, any other error ends the command.
func (t *Traced) list(ctx context.Context, d *cluster.Direct, info kinds.Info, namespace string) error {
	read, err := EachObject(ctx, d, info, namespace, func(o *unstructured.Unstructured) error {
		t.Read++
		t.add(o)
		return nil
	})
	switch {
	case kerrors.IsForbidden(read):
		t.Unread = append(t.Unread, info.Resource)
	case err == nil && read == nil:
		t.Kinds++
	}
	return err
}

// add adds an object if it has the id.
func (t *Traced) add(o *unstructured.Unstructured) {
	found := TracedObject{Object: identity.ObjectReference(parent.RefOf(o), o.GetGeneration(), "")}
	of := trace.Of(o.GetAnnotations())
	origin := originOf(of, o.GetNamespace(), t.ID)
	carried := carry.Carried(o.Object)
	switch {
	case origin != nil:
		t.Origin = absolute(*origin, o.GetNamespace())
		found.Hop = absolute(*of.Own(), o.GetNamespace())
	case carried.TraceID == t.ID:
		found.Initiator, found.Origin = carried.Initiator, carried.Origin
	default:
		return
	}
	if len(t.Objects) == MaxTraced {
		t.More++
		return
	}
	t.Objects = append(t.Objects, found)
}

// originOf returns the origin of a trace that has an id: that of the whole trace, or of one of its beginnings, each of which was the trace of an object
// above; nil for none.
func originOf(of trace.Trace, namespace, id string) *v1alpha1.Hop {
	for n := len(of); n > 0; n-- {
		if external.ProvenanceOf(of[:n], namespace).TraceID == id {
			return of[:n].Origin()
		}
	}
	return nil
}

// absolute returns a hop with its namespace, whatever that of its carrier is.
func absolute(h v1alpha1.Hop, carrier string) *v1alpha1.Hop {
	h.Namespace = trace.NamespaceOf(h, carrier)
	h.ClusterScoped = h.Namespace == ""
	return &h
}
