package settling

import (
	"time"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Rejected returns the rejection on a parent that a drift of one of its children matches; ok is false for none.
func Rejected(d *v1alpha1.DriftSpec, p *parent.State, now time.Time) (r v1alpha1.Rejection, ok bool) {
	intent, _ := trace.Intent(p)
	return approval.ParseAt(p.Annotations, now).Rejected(approval.Query{
		APIVersion: d.Child.APIVersion, Kind: d.Child.Kind, Name: d.Child.Name, Resource: d.Child.Resource, Intent: intent.Generation,
	})
}
