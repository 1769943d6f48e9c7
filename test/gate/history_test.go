package gate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/history"
)

type metav1GVR = schema.GroupVersionResource

// record of the Databases and Xstores of a Namespace, and of what the cloud is sent meanwhile.
type record struct {
	*history.History
	xrs  *history.History
	from int64 // of the cloud's log
}

func (s *fixture) record() record {
	s.t.Helper()
	h, err := history.Record(s.t.Context(), the.EtcdURL(), databases, s.ns)
	require.NoError(s.t, err)
	xrs, err := history.Record(s.t.Context(), the.EtcdURL(), xstores, s.ns)
	require.NoError(s.t, err)
	return record{History: h, xrs: xrs, from: s.seq()}
}

// lag is how old the provider's copy of a managed resource may be when it acts on
// it: the API server may have been away meanwhile.
const lag = 15 * time.Second

// check the cloud's log: every write of the provider was allowed by a recent
// version of the managed resource: by its policies, and by a gate that was open
// for it or had not been installed yet; and it wrote the desired values.
func (h record) check(t testing.TB, mr string) []string {
	t.Helper()
	log, err := the.cloud.Writes(t.Context(), h.from)
	require.NoError(t, err)
	var wrong []string
	for _, e := range log {
		if !strings.HasSuffix(e.Path, "/"+mr) {
			continue
		}
		verb := map[string]v1alpha1.Verb{"PUT": v1alpha1.VerbCreate, "PATCH": v1alpha1.VerbUpdate, "DELETE": v1alpha1.VerbDelete}[e.Method]
		current, err := h.Current(mr, e.Time, lag)
		require.NoError(t, err)
		if !slices.ContainsFunc(current, func(o *unstructured.Unstructured) bool { return allows(o, verb, e.Body) }) {
			wrong = append(wrong, fmt.Sprintf("%s %s %s at %s: no gate was open for it", e.Method, mr, e.Body, e.Time.Format("05.000")))
		}
	}
	return wrong
}

func allows(o *unstructured.Unstructured, verb v1alpha1.Verb, body json.RawMessage) bool {
	if !mask.Gives(policiesOf(o), verb) || verb == v1alpha1.VerbDelete && o.GetDeletionTimestamp() == nil {
		return false
	}
	g := gateOf(o)
	if _, masked := mask.ParseAuthor(o.GetAnnotations()[v1alpha1.AnnotationKeyManagementPolicies]); masked &&
		(g.State != v1alpha1.GateOpen || !slices.Contains(g.Verbs, verb)) {
		return false
	}
	if verb == v1alpha1.VerbDelete {
		return true
	}
	wrote := struct {
		Size int64 `json:"size"`
	}{}
	size, _, _ := unstructured.NestedInt64(o.Object, "spec", "forProvider", "size")
	return json.Unmarshal(body, &wrote) == nil && wrote.Size == size
}

// openings of the gate of a managed resource that nothing called for: its spec is as it was when the gate was closed last, and neither it nor its
// composite had an approval since the gate was opened last. xr is "" for none.
func (h record) openings(t testing.TB, mr, xr string) []string {
	t.Helper()
	versions, err := h.Versions(mr)
	require.NoError(t, err)
	holders, err := h.xrs.Versions(xr)
	require.NoError(t, err)
	var wrong []string
	var closed *unstructured.Unstructured // with which the gate was closed last
	var opened time.Time
	was := v1alpha1.GateClosed
	for _, v := range versions {
		if v.Object == nil {
			closed, was = nil, v1alpha1.GateClosed
			continue
		}
		gate := gateOf(v.Object)
		switch {
		case gate.State == v1alpha1.GateOpen && was != v1alpha1.GateOpen:
			if closed != nil && equality.Semantic.DeepEqual(wanted(closed), wanted(v.Object)) && !approved(gate, opened, v.Seen, versions, holders) {
				wrong = append(wrong, fmt.Sprintf("the gate of %s was opened at %s without a cause: %+v", mr, v.Seen.Format("05.000"), gate))
			}
			opened = v.Seen
		case gate.State != v1alpha1.GateOpen && (was == v1alpha1.GateOpen || closed == nil):
			closed = v.Object
		}
		was = gate.State
	}
	return wrong
}

// wanted is the spec of a managed resource but for its policies, which the gate writes.
func wanted(o *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	delete(spec, "managementPolicies")
	return spec
}

// approved reports whether a version that was current in a period has an approval for which a gate may be opened.
func approved(gate v1alpha1.Gate, from, to time.Time, of ...[]history.Version) bool {
	for _, versions := range of {
		for i, v := range versions {
			if v.Object == nil || v.Seen.After(to.Add(time.Second)) || i+1 < len(versions) && versions[i+1].Seen.Before(from) { // one of the watches may be late
				continue
			}
			for key, value := range v.Object.GetAnnotations() {
				id, is := strings.CutPrefix(key, v1alpha1.AnnotationKeyApprovePrefix)
				if is && (id == gate.Digest || slices.Contains(gate.Verbs, v1alpha1.VerbDelete)) ||
					key == v1alpha1.AnnotationKeyApprovals && strings.Contains(value, string(v1alpha1.RelationExternal)) {
					return true
				}
			}
		}
	}
	return false
}
