package gate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/history"
	"github.com/kausality-io/function-kausality/test/gate/openings"
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

// openings of the gate of a managed resource that nothing called for. xr is the composite that has its approvals as well; "" for none.
func (h record) openings(t testing.TB, mr, xr string) []string {
	t.Helper()
	versions, err := h.Versions(mr)
	require.NoError(t, err)
	holder, err := h.xrs.Versions(xr)
	require.NoError(t, err)
	return openings.Uncalled(versions, holder)
}
