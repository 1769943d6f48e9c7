package fn

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/crossplane/function-sdk-go/errors"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/response"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/parent"
	input "github.com/kausality-io/function-kausality/fn/input/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// audit is what the function does as a step of an Operation: there is no
// composite, and nothing is desired. It looks at the watched resource and at
// those that the step's requirements name, changes none of them, and reports to
// the step's output (KR-09-15).
func (f *Function) audit(cfg config, req *fnv1.RunFunctionRequest, rsp *fnv1.RunFunctionResponse) {
	a := auditor{cfg: cfg, now: f.now()}
	out := a.audit(requiredObjects(req))
	raw, err := json.Marshal(out)
	if err == nil {
		rsp.Output = &structpb.Struct{}
		err = rsp.Output.UnmarshalJSON(raw)
	}
	if err != nil {
		response.Fatal(rsp, errors.Wrap(err, "cannot write the audit"))
		return
	}
	tell(rsp, out)
}

// tell people in results, which become events of the Operation.
func tell(rsp *fnv1.RunFunctionResponse, a input.Audit) {
	if a.Objects == 0 {
		response.Warning(rsp, errors.New("there is nothing to audit: name resources in the step's requirements, or watch some")).WithReason("Kausality")
		return
	}
	told := 0
	for _, o := range a.Resources {
		for _, f := range o.Findings {
			if told++; told <= maxResults {
				response.Warning(rsp, errors.New(cut(fmt.Sprintf("%s %s: %s: %s", o.Kind, path(o.Namespace, o.Name), f.Reason, f.Message), maxMessage))).
					WithReason(string(f.Reason))
			}
		}
	}
	if a.Findings > maxResults {
		response.Warning(rsp, errors.Errorf("and %d more", a.Findings-maxResults)).WithReason("Kausality")
	}
	response.Normalf(rsp, "audited %d objects, %d findings", a.Objects, a.Findings).WithReason("Kausality")
}

func path(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// requiredObjects of a request, each once however many requirements name it,
// sorted.
func requiredObjects(req *fnv1.RunFunctionRequest) []*unstructured.Unstructured {
	byKey := map[string]*unstructured.Unstructured{}
	for _, group := range []map[string]*fnv1.Resources{req.GetExtraResources(), req.GetRequiredResources()} { //nolint:staticcheck // What older Crossplanes send.
		for _, name := range sortedKeys(group) {
			for _, item := range group[name].GetItems() {
				if u := ssa.Unstructured(ssa.Object(item.GetResource())); u != nil {
					byKey[strings.Join([]string{u.GroupVersionKind().String(), u.GetNamespace(), u.GetName()}, "\x00")] = u
				}
			}
		}
	}
	out := make([]*unstructured.Unstructured, 0, len(byKey))
	for _, k := range sortedKeys(byKey) {
		out = append(out, byKey[k])
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// auditor looks at objects.
type auditor struct {
	cfg config
	now time.Time
	// states of all, to find parents.
	states map[string]*parent.State
	// notes of composites by their UID, read off what they are composed of.
	notes map[string]note
}

func (a *auditor) audit(objects []*unstructured.Unstructured) input.Audit {
	out := input.Audit{APIVersion: input.APIVersion, Kind: input.KindAudit, Objects: len(objects)}
	a.states, a.notes = map[string]*parent.State{}, map[string]note{}
	summed := make([]*parent.State, len(objects))
	for i, o := range objects {
		summed[i] = parent.Sum(o, auditRole(o))
		if summed[i].Role == parent.RoleComposite && stampedAbove(summed[i]) != nil {
			summed[i] = parent.Sum(withoutComposed(o), parent.RoleComposite)
		}
		if xr := string(summed[i].Parent.UID); xr != "" {
			a.notes[xr] = a.notes[xr].later(shown(summed[i]))
		}
		if uid := string(o.GetUID()); uid != "" {
			a.states[uid] = summed[i]
		}
	}
	for i, o := range objects {
		looked := a.look(o, summed[i])
		out.Findings += len(looked.Findings)
		out.Resources = append(out.Resources, looked)
	}
	slices.SortStableFunc(out.Resources, func(x, y input.Audited) int {
		return cmp.Compare(min(len(y.Findings), 1), min(len(x.Findings), 1))
	})
	if n := len(out.Resources); n > input.MaxAudited {
		out.Resources, out.Omitted = out.Resources[:input.MaxAudited], n-input.MaxAudited
	}
	return out
}

// auditRole of an object by what it has: a managed resource may be wanted with
// its default policies only.
func auditRole(o *unstructured.Unstructured) parent.Role {
	spec := ssa.Child(o.Object, "spec")
	if role := ssa.RoleOf(spec); role != parent.RoleNone {
		return role
	}
	if _, ok := spec["forProvider"].(map[string]any); ok {
		return parent.RoleManaged
	}
	return parent.RoleNone
}
