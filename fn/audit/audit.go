package audit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/crossplane/function-sdk-go/errors"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/response"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	input "github.com/kausality-io/function-kausality/fn/input/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/offline"
	"github.com/kausality-io/function-kausality/fn/policies"
	"github.com/kausality-io/function-kausality/fn/results"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// Run audits the required objects of a request and writes the report to the
// response. mode is that of the Input, configured what the cluster configures.
func Run(mode v1alpha1.Mode, configured policies.Cluster, now time.Time, req *fnv1.RunFunctionRequest, rsp *fnv1.RunFunctionResponse) {
	a := auditor{mode: mode, configured: configured, now: now, states: map[string]*parent.State{}, notes: map[string]offline.Note{}}
	out := a.audit(objectsOf(req))
	raw, err := json.Marshal(out)
	if err == nil {
		rsp.Output = &structpb.Struct{}
		err = rsp.Output.UnmarshalJSON(raw)
	}
	if err != nil {
		response.Fatal(rsp, errors.Wrap(err, "cannot write the audit"))
		return
	}
	report(rsp, out)
}

// report reports findings in results.
func report(rsp *fnv1.RunFunctionResponse, a input.Audit) {
	if a.Objects == 0 {
		response.Warning(rsp, errors.New("there is nothing to audit: name resources in the step's requirements, or watch some")).
			WithReason(results.Reason)
		return
	}
	var warnings []results.Warning
	for _, o := range a.Resources {
		at := strings.TrimPrefix(o.Namespace+"/"+o.Name, "/") // cluster-scoped objects have no namespace
		for _, f := range o.Findings {
			text := fmt.Sprintf("%s %s: %s: %s", o.Kind, at, f.Reason, f.Message)
			warnings = append(warnings, results.Warning{Reason: string(f.Reason), Text: text})
		}
	}
	results.Warn(rsp, warnings, a.Findings, results.Reason)
	response.Normalf(rsp, "audited %d objects, %d findings", a.Objects, a.Findings).WithReason(results.Reason)
}

// objectsOf returns the objects of a request, sorted by kind, namespace and name: each once however many
// requirements match it.
func objectsOf(req *fnv1.RunFunctionRequest) []*unstructured.Unstructured {
	byKey := map[string]*unstructured.Unstructured{}
	for _, group := range []map[string]*fnv1.Resources{req.GetExtraResources(), req.GetRequiredResources()} { //nolint:staticcheck // What older Crossplanes send.
		for _, name := range slices.Sorted(maps.Keys(group)) {
			if policies.Requires(name) { // not the user's
				continue
			}
			for _, item := range group[name].GetItems() {
				if u := ssa.Unstructured(ssa.Object(item.GetResource())); u != nil {
					byKey[strings.Join([]string{u.GroupVersionKind().String(), u.GetNamespace(), u.GetName()}, "\x00")] = u
				}
			}
		}
	}
	out := make([]*unstructured.Unstructured, 0, len(byKey))
	for _, k := range slices.Sorted(maps.Keys(byKey)) {
		out = append(out, byKey[k])
	}
	return out
}

// auditor of the objects of one request.
type auditor struct {
	mode       v1alpha1.Mode
	configured policies.Cluster
	now        time.Time
	// states of all objects by UID, to find parents.
	states map[string]*parent.State
	// notes of composites by UID, as their composed resources carry them.
	notes map[string]offline.Note
}

func (a *auditor) audit(objects []*unstructured.Unstructured) input.Audit {
	out := input.Audit{APIVersion: input.APIVersion, Kind: input.KindAudit, Objects: len(objects)}
	all := make([]*parent.State, len(objects))
	for i, o := range objects {
		s, _ := offline.Sum(o, roleOf(o))
		if xr := string(s.Parent.UID); xr != "" {
			a.notes[xr] = a.notes[xr].Later(offline.NoteOn(s))
		}
		if uid := string(o.GetUID()); uid != "" {
			a.states[uid] = s
		}
		all[i] = s
	}
	for i, o := range objects {
		audited := a.look(o, all[i])
		out.Findings += len(audited.Findings)
		out.Resources = append(out.Resources, audited)
	}
	slices.SortStableFunc(out.Resources, func(x, y input.Audited) int {
		return cmp.Compare(min(len(y.Findings), 1), min(len(x.Findings), 1))
	})
	if n := len(out.Resources); n > input.MaxAudited {
		out.Resources, out.Omitted = out.Resources[:input.MaxAudited], n-input.MaxAudited
	}
	return out
}

// roleOf returns the role of an object by its fields. An MR may have its default policies only, which
// are not stored in every version of Crossplane.
func roleOf(o *unstructured.Unstructured) parent.Role {
	spec := ssa.Child(o.Object, "spec")
	if role := ssa.RoleOf(spec); role != parent.RoleNone {
		return role
	}
	if ssa.Child(spec, "forProvider") != nil {
		return parent.RoleManaged
	}
	return parent.RoleNone
}
