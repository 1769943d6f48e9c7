package drift

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// maxRuling is the length of the text of a ruling in a Drift, in bytes.
const maxRuling = 512

// rule notes in an open Drift what was decided on its parent p, nil for none (KR-10-21). Once its snooze is over, its report is owed (KR-10-15).
func (r *Resolver) rule(ctx context.Context, d *v1alpha1.Drift, p *parent.State) error {
	if d.Status.Phase != v1alpha1.DriftDetected {
		return nil
	}
	ruling := rulingOn(&d.Spec, p)
	snoozed := d.Status.Snoozed && ruling != nil && ruling.Snooze != nil
	if snoozed == d.Status.Snoozed && equality.Semantic.DeepEqual(ruling, d.Status.Ruling) {
		return nil
	}
	if _, err := editStatus(ctx, r.Client, d, func(s *v1alpha1.DriftStatus) { s.Ruling, s.Snoozed = ruling, snoozed }); err != nil {
		return fmt.Errorf("cannot write what was decided on the parent of a drift: %w", err)
	}
	return nil
}

// rulingOn returns what was decided on a parent, nil for none, about a drift; nil for nothing.
func rulingOn(d *v1alpha1.DriftSpec, p *parent.State) *v1alpha1.DriftRuling {
	if p == nil {
		return nil
	}
	out, now := v1alpha1.DriftRuling{}, clock.Now()
	if found, ok := settling.Rejected(d, p, now); ok {
		found.Reason = annotation.Cut(found.Reason, maxRuling)
		out.Rejected = &found
	}
	if set := approval.Parse(p.Annotations); set.Snoozed(now) {
		found := *set.Snooze
		found.Expiry = metav1.NewTime(found.Expiry.UTC().Truncate(time.Second)) // as it is stored
		found.User, found.Message = annotation.Cut(found.User, v1alpha1.MaxCauseName), annotation.Cut(found.Message, maxRuling)
		out.Snooze = &found
	}
	if out == (v1alpha1.DriftRuling{}) {
		return nil
	}
	return &out
}
