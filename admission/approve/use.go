package approve

import (
	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Bounded cuts a name to v1alpha1.MaxCauseName bytes of valid UTF-8.
func Bounded(name string) string { return annotation.Cut(name, v1alpha1.MaxCauseName) }

// Use returns the use of an approval by this request. A deletion is of the object in whatever version it is deleted: it happens once, and
// the gate may write the object's policies while the API server decides about it (KR-05-36).
func Use(f *facts.Facts, digest string) approval.Use {
	ref := f.Req.Ref()
	apiVersion, kind := ref.ToAPIVersionAndKind()
	child := v1alpha1.ClaimChild{APIVersion: apiVersion, Kind: kind, Namespace: ref.Namespace, Name: ref.Name}
	if old := f.Req.OldObject; old != nil {
		child.UID = old.GetUID()
		if f.Req.Operation != request.Delete {
			child.Version = identity.Version(old)
		}
	}
	return approval.Use{Child: child, Digest: digest, User: f.ID(), Claim: f.Req.Claim(), Stale: settling.StaleClaims(f.Req.Time)}
}
