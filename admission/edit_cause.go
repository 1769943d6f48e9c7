package admission

import (
	"github.com/kausality-io/function-kausality/admission/carry"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// writeCause writes the cause of the change into the field of a managed resource that carries it to the outside, where the write reaches the
// external resource (KR-08-43). In mode log, where it is not recorded, the field is left to others.
func writeCause(ed *editor, reached bool) {
	f := ed.Desired.Carry
	records := ed.Settings.Records(f.Provenance, ed.Options.Provenance)
	if f.Name == "" || !records && ed.Mode != v1alpha1.ModeEnforce {
		return
	}
	w := carry.Write{Field: f, Object: ed.Req.Object.Object, Records: records, Reached: reached}
	if ed.Req.OldObject != nil {
		w.Old = ed.Req.OldObject.Object
	}
	if w.Leaves() {
		return
	}
	w.ByUser = !ed.controllerWrites()
	if records && reached {
		w.Cause = causeOf(ed)
	}
	value, changed, warnings := w.Edit()
	if ed.warnings.Add(warnings...); changed {
		ed.setField(change.Pointer("spec", "forProvider", f.Name), value)
	}
}

// reachesNow reports whether the allowed change may reach the external resource at once: where a gate masks the object, in the write that opens it.
func reachesNow(ed *editor) bool {
	if ed.gate != nil {
		return ed.gate.State == v1alpha1.GateOpen && ed.reaches()
	}
	return ed.reaches() && (ed.Mode != v1alpha1.ModeEnforce || !ed.Kind.ManagementPolicies || !ed.Desired.Remembered || !mask.Maskable(ed.Desired.Author))
}

// causeOf the allowed change.
func causeOf(ed *editor) carry.Cause {
	c := carry.Cause{Provenance: external.ProvenanceOf(trace.Of(ed.after()), ed.Req.Namespace), Allowances: carry.AllowancesOf(ed.external)}
	if d := ed.Options.Deadline; ed.gate != nil && d > 0 {
		c.Verbs = carry.Allowed(ed.Req.Kind.GroupKind(), *ed.gate)
		c.Until = gating.LastEndOf(*ed.gate, gating.DeadlineOf(ed.Settings, gating.Defaults{Deadline: d}))
	}
	return c
}
