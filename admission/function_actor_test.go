package admission

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Pipeline is what the composition function sees of one reconcile of an XR.
type Pipeline struct {
	Mode v1alpha1.Mode
	Now  time.Time
	XR   *unstructured.Unstructured
	// Observed and Desired resources by their names in the Composition.
	Observed, Desired map[string]*unstructured.Unstructured
}

// RunFunction runs the real composition function, which masks itself (gate:
// Managed), and returns what is desired afterwards. function_run_test.go sets it:
// package fn imports this one.
var RunFunction func(Pipeline) map[string]*unstructured.Unstructured

// applied is what Crossplane's apply of what the function emits leaves of an MR:
// what Kausality wrote there before and does not emit again is removed, but for
// the annotations that others write.
func applied(now, emitted *unstructured.Unstructured) *unstructured.Unstructured {
	out := now.DeepCopy()
	spec, _, _ := unstructured.NestedMap(emitted.Object, "spec")
	set(spec["forProvider"], "spec", "forProvider")(out)
	set(spec["managementPolicies"], "spec", "managementPolicies")(out)
	a := out.GetAnnotations()
	for _, k := range []string{v1alpha1.AnnotationKeyManagementPolicies, v1alpha1.AnnotationKeyGate, v1alpha1.AnnotationKeyUsedApprovals,
		v1alpha1.AnnotationKeyHeld, v1alpha1.AnnotationKeySettledIntent, v1alpha1.AnnotationKeyHeldCreations} {
		delete(a, k)
	}
	maps.Copy(a, emitted.GetAnnotations())
	out.SetAnnotations(a)
	return out
}

// composedAs is what a Composition wants of an MR.
func composedAs(o *unstructured.Unstructured, author []string, mods ...mod) *unstructured.Unstructured {
	policies := make([]any, 0, len(author))
	for _, p := range author {
		policies = append(policies, p)
	}
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind()}}
	fp, _, _ := unstructured.NestedMap(o.Object, "spec", "forProvider")
	return with(out, append([]mod{set(fp, "spec", "forProvider"), policies1(policies...)}, mods...)...)
}

// wants of a Composition about an MR; nil removes it.
func wants(o *unstructured.Unstructured) map[string]*unstructured.Unstructured {
	author := mask.AuthorOf(o.GetAnnotations(), parent.Sum(o, parent.RoleManaged).ManagementPolicies)
	return map[string]*unstructured.Unstructured{
		"same":         composedAs(o, author),
		"change":       composedAs(o, author, resize("l")),
		"change, *":    composedAs(o, []string{"*"}, resize("l")),
		"author O":     composedAs(o, []string{observe}),
		"author []":    composedAs(o, []string{}),
		"author *":     composedAs(o, []string{"*"}),
		"author O,C,U": composedAs(o, []string{observe, create, update}),
		"nothing":      nil,
	}
}

// exploreFunction runs the composition function on every MR in every situation,
// alone and beside a webhook that keeps the trace of the XR.
func exploreFunction(t *testing.T, found explored) (asked int) {
	t.Helper()
	one := func(in string, p Pipeline) {
		asked++
		o := p.Observed["instance"]
		var before, after *parent.State
		if o != nil {
			before = parent.Sum(o, parent.RoleManaged)
		}
		emitted := RunFunction(p)["instance"]
		switch {
		case o == nil && emitted == nil:
			return // held
		case o == nil:
			after = parent.Sum(emitted, parent.RoleManaged)
		case emitted == nil && before.Deleting():
			return
		case emitted == nil:
			after = parent.Sum(with(o, deleting), parent.RoleManaged)
		default:
			after = parent.Sum(applied(o, emitted), parent.RoleManaged)
		}
		reason := ""
		was, is := gate1(before), gate1(after)
		switch from, to := gating.StatusOf(before), gating.StatusOf(after); {
		case from == gating.StatusTerminating && to != gating.StatusTerminating:
			t.Errorf("%s: a terminating MR is %s", in, to)
		case mask.FormatGate(was) != mask.FormatGate(is):
			if to != gating.StatusUnmasked && to != gating.StatusPaused {
				reason = is.Reason
			}
			found.note(taken{from, to, gating.MoverFunction, reason}, in)
		case from != to:
			found.note(taken{from, to, gating.MoverFunction, ""}, in)
		}
	}
	for name, o := range product(storedMasks(), providerReports(), circumstances()[:3], cloudStates()[:3]) {
		if strings.Contains(name, "not supported") {
			continue // the function does not know the runtime of a provider
		}
		for want, desired := range wants(o) {
			exploreHolders(name, want, o, desired, one)
		}
		exploreHolders(name, "nothing, orphan", with(o, annotate(v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan)), nil, one)
	}
	for want, desired := range wants(unmasked()) {
		if desired != nil {
			for _, mode := range []v1alpha1.Mode{v1alpha1.ModeEnforce, v1alpha1.ModeLog} {
				xr := with(composite(), unsettled)
				one("create, "+want, Pipeline{Mode: mode, Now: noon, XR: xr, Desired: map[string]*unstructured.Unstructured{"instance": desired}})
			}
		}
	}
	return asked
}

// exploreHolders of approvals on the XR, modes and times for one MR: approvals and
// deadlines where the Composition wants nothing else, a new intent where it does.
func exploreHolders(name, want string, o, desired *unstructured.Unstructured, one func(string, Pipeline)) {
	mr := parent.Sum(o, parent.RoleManaged)
	g := gating.Managed{MR: mr, Difference: external.Difference(o.Object)}
	rests := want == "same" || strings.HasPrefix(want, "nothing")
	for what, holder := range holdersFor(g) {
		plain := strings.TrimSpace(what) == ""
		if !plain && (!rests || !strings.Contains(name, "/synced") || strings.Contains(name, "no generation") || !strings.Contains(name, "/ready/")) {
			continue
		}
		xrs := []*unstructured.Unstructured{composite(), with(composite(), unsettled)}
		times := []time.Time{noon, noon.Add(31 * time.Minute)}
		if rests {
			xrs = xrs[:1]
		} else {
			times = times[:1]
		}
		for i, xr := range xrs {
			for k, v := range holder.Annotations {
				if v1alpha1.IsUser(k) {
					annotate(k, v)(xr)
				}
			}
			for _, mode := range []v1alpha1.Mode{v1alpha1.ModeEnforce, v1alpha1.ModeLog} {
				for _, now := range times {
					p := Pipeline{Mode: mode, Now: now, XR: xr, Observed: map[string]*unstructured.Unstructured{"instance": o}}
					if desired != nil {
						p.Desired = map[string]*unstructured.Unstructured{"instance": desired}
					}
					one(fmt.Sprintf("function: %s, %s, %s, %s, %s, new intent %t", name, want, what, mode, now.Format(time.TimeOnly), i == 1), p)
				}
			}
		}
	}
}

func gate1(s *parent.State) v1alpha1.Gate {
	if s == nil {
		return v1alpha1.Gate{}
	}
	return mask.ParseGate(s.Annotations)
}
