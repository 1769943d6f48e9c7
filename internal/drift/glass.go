package drift

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// glassBroken counts a change that one user approved alone, with an event about its parent, or about the child where it has none.
func (r *Reporter) glassBroken(d *v1alpha1.Drift, by *v1alpha1.Vote) {
	brokenGlass.WithLabelValues(string(d.Spec.Relation)).Inc()
	r.emit(d, corev1.EventTypeWarning, "GlassBroken", by.User+" approved alone that "+identity.Describe(identity.Ref(d.Spec.Child))+" is changed: "+by.BreakGlass+
		". The report and kubectl kausality explain have the difference.")
}

// emit an event about the parent of a drift, or the child.
func (r *Reporter) emit(d *v1alpha1.Drift, kind, reason, text string) {
	if r.Events == nil {
		return
	}
	o := d.Spec.Parent
	if o.Name == "" {
		o = d.Spec.Child
	}
	about := &corev1.ObjectReference{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: cmp.Or(o.Namespace, d.Namespace), Name: o.Name, UID: o.UID}
	r.Events.Eventf(about, nil, kind, reason, reason, "%s", text)
}
