package records

import (
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	recordsv1alpha1 "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/lists"
)

const (
	annotationExternalName = "crossplane.io/external-name"
	// extraOnBehalfOf of a user, as votes have it.
	extraOnBehalfOf = v1alpha1.AnnotationPrefix + "on-behalf-of"
)

// decision of the webhook about a request: what its records have, and no object.
type decision struct {
	ref       parent.Ref
	operation string
	user      subject.User
	manager   string
	at        time.Time
	external  string

	// intent is true where the desired state changes.
	intent bool
	trace  trace.Trace
	// paths of what it changes, without the values.
	paths  []string
	id     string
	reason string
	// holder of the approval that is used; nil for none.
	holder *parent.Ref

	// before and after are annotations that the request changes: claims, freeze and rejections.
	before, after annotations
}

// annotations that are decisions of users.
type annotations struct{ claims, freeze, rejections string }

// OfDecision returns what is recorded of a decision of the webhook: intents, votes, uses of approvals, freezes and rejections (KR-16-10). nil where
// nothing is: for refusals, whose drift is recorded when it is stored, for dry-runs, and where nothing changes.
func OfDecision(req *admission.Request, d admission.Decision) Occurrence {
	if !d.Allowed || req.DryRun {
		return nil
	}
	deletes := req.Operation == admission.Delete && req.OldObject != nil && req.OldObject.GetDeletionTimestamp() == nil
	intent := d.Class != outcome.ClassNone && d.Class != outcome.ClassSelf && (len(d.Trace) > 0 || deletes)
	claims := d.Annotations[v1alpha1.AnnotationKeyClaims]
	if d.Reason == outcome.ReasonComponent {
		claims = givenClaims(req)
	}
	if !intent && claims == nil && !d.ChangesUserAnnotation {
		return nil
	}
	out := &decision{
		ref: req.Ref(), operation: string(req.Operation), user: req.User, manager: req.FieldManager, at: req.Time,
		external: annotationOf(req.Current(), annotationExternalName), intent: intent, trace: d.Trace,
		paths: lists.Map(d.Changes, func(c change.Change) string { return c.Path }), id: d.Digest.ID(), reason: string(d.Reason),
	}
	if d.Claim != nil {
		out.holder = &d.Claim.Holder
	}
	if o := req.Current(); o != nil {
		out.ref.UID = o.GetUID()
	}
	if claims != nil || d.ChangesUserAnnotation {
		out.before, out.after = changed(req, claims)
	}
	return out
}

// givenClaims returns the claims that another component of Kausality writes, as a Rollout gives them to an object; nil where it changes none (KR-16-13).
func givenClaims(req *admission.Request) *string {
	before, after := annotationOf(req.OldObject, v1alpha1.AnnotationKeyClaims), annotationOf(req.Object, v1alpha1.AnnotationKeyClaims)
	if before == after {
		return nil
	}
	return &after
}

// changed annotations by a request: those that the decision sets, and those of the user.
func changed(req *admission.Request, claims *string) (before, after annotations) {
	of := func(o *unstructured.Unstructured) annotations {
		return annotations{
			claims: annotationOf(o, v1alpha1.AnnotationKeyClaims), freeze: annotationOf(o, v1alpha1.AnnotationKeyFreeze),
			rejections: annotationOf(o, v1alpha1.AnnotationKeyRejections),
		}
	}
	before, after = of(req.OldObject), of(req.Object)
	if after.claims = before.claims; claims != nil {
		after.claims = *claims
	}
	if req.Operation == admission.Delete {
		after = before
	}
	return before, after
}

// annotationOf returns the annotation of an object, without a copy of all of them.
func annotationOf(o *unstructured.Unstructured, key string) string {
	if o == nil {
		return ""
	}
	value, _, err := unstructured.NestedString(o.Object, "metadata", "annotations", key)
	if err != nil {
		return "" // the API server refuses it
	}
	return value
}

// Records returns the records of the decision (KR-16-10).
func (d *decision) Records(c recordsv1alpha1.Cluster) []recordsv1alpha1.Record {
	out := d.votes(c)
	if d.intent {
		out = append(out, d.intents(c)...)
	}
	if d.before.freeze != d.after.freeze {
		out = append(out, d.frozen(c))
	}
	if d.before.rejections != d.after.rejections && d.after.rejections != "" {
		r := d.record(c, recordsv1alpha1.TypeRejection, d.at, d.user.Name, d.after.rejections)
		r.Reason = string(outcome.ReasonRejected)
		out = append(out, r)
	}
	return out
}

// record of a type about the object of the request.
func (d *decision) record(c recordsv1alpha1.Cluster, of recordsv1alpha1.Type, at time.Time, occurrence ...string) recordsv1alpha1.Record {
	r := newRecord(c, of, objectOf(d.ref), at, occurrence...)
	r.Operation, r.External, r.Actor = d.operation, d.external, d.actor()
	return r
}

func (d *decision) actor() *recordsv1alpha1.Actor {
	a := &recordsv1alpha1.Actor{User: d.user.Name, Via: d.manager}
	if of := d.user.Extra[extraOnBehalfOf]; len(of) > 0 {
		a.OnBehalfOf = of[0]
	}
	return a
}

// intents returns the record of the object's own hop, and that of the approval by which it passed.
func (d *decision) intents(c recordsv1alpha1.Cluster) []recordsv1alpha1.Record {
	own := d.trace.Own()
	if own == nil { // a deletion, of which no trace is stored
		r := d.record(c, recordsv1alpha1.TypeIntent, d.at.Truncate(time.Second), d.operation, string(d.ref.UID), d.user.Name)
		r.Reason, r.Differences = d.reason, ids(d.id)
		return []recordsv1alpha1.Record{r}
	}
	ns := d.ref.Namespace
	r := d.record(c, recordsv1alpha1.TypeIntent, own.Timestamp.Time)
	r.ID = intentID(c, *own, ns)
	r.Object.Generation = own.Generation
	r.Trace, r.Labels, r.Paths = hopsOf(d.trace, ns), own.Labels, d.paths
	r.Reason, r.Differences, r.Causes = d.reason, ids(d.id), causesOf(own.Causes)
	if before := d.above(); before != nil {
		r.Parent, r.CausedBy = new(hopObject(*before, ns)), ids(intentID(c, *before, ns))
	}
	if own.Approval == nil {
		return []recordsv1alpha1.Record{r}
	}
	used := d.used(c, *own, r)
	r.Approval, r.Approvers = used.Approval, used.Approvers
	r.CausedBy = append([]string{used.ID}, r.CausedBy...)
	return []recordsv1alpha1.Record{used, r}
}

// above returns the hop of the parent; nil where the object's own hop begins the trace.
func (d *decision) above() *v1alpha1.Hop {
	if len(d.trace) < 2 {
		return nil
	}
	return &d.trace[len(d.trace)-2]
}

// used returns the record of the approval that a hop names.
func (d *decision) used(c recordsv1alpha1.Cluster, own v1alpha1.Hop, intent recordsv1alpha1.Record) recordsv1alpha1.Record {
	a := own.Approval
	r := newRecord(c, recordsv1alpha1.TypeApprovalUsed, intent.Object, own.Timestamp.Time, a.Claim, a.Content, a.Digest, a.Policy, generation(own.Generation))
	r.Operation, r.External, r.Actor, r.Parent = intent.Operation, intent.External, intent.Actor, intent.Parent
	r.Trace, r.Paths, r.Reason, r.Message = intent.Trace, intent.Paths, string(own.Passed), a.Reason
	r.Differences = ids(a.Digest)
	r.Approval = &recordsv1alpha1.Approval{Mode: string(a.Mode), Policy: a.Policy}
	r.Approvers = approversOf(a.By)
	holder := d.holder
	if holder == nil && d.above() != nil {
		holder = new(hopRef(*d.above(), d.ref.Namespace))
	}
	if holder != nil {
		r.CausedBy = lists.Map(a.By, func(v v1alpha1.Vote) string { return voteID(c, objectOf(*holder), a.Content, v) })
	}
	return r
}

// votes returns the votes that the request adds to the claims of the object.
func (d *decision) votes(c recordsv1alpha1.Cluster) (out []recordsv1alpha1.Record) {
	if d.before.claims == d.after.claims {
		return nil
	}
	known := approval.ParseClaims(d.before.claims)
	for _, claim := range approval.ParseClaims(d.after.claims) {
		for _, v := range claim.By {
			if !voted(known, claim.Content, v) {
				out = append(out, d.vote(c, claim, v)...)
			}
		}
	}
	return out
}

// voted reports whether claims have a vote.
func voted(in approval.Claims, content string, v v1alpha1.Vote) bool {
	return slices.ContainsFunc(in, func(c v1alpha1.Claim) bool {
		return c.Content == content && slices.ContainsFunc(c.By, func(o v1alpha1.Vote) bool { return o.User == v.User && o.At.Equal(&v.At) })
	})
}

// vote, and break glass where it is one.
func (d *decision) vote(c recordsv1alpha1.Cluster, claim v1alpha1.Claim, v v1alpha1.Vote) []recordsv1alpha1.Record {
	object := objectOf(d.ref)
	r := newRecord(c, recordsv1alpha1.TypeVote, object, v.At.Time)
	r.ID = voteID(c, object, claim.Content, v)
	r.Actor = &recordsv1alpha1.Actor{User: v.User, Via: v.Via, OnBehalfOf: v.OnBehalfOf}
	r.Differences, r.Message = ids(claim.Digest), claim.Reason
	r.Approval = &recordsv1alpha1.Approval{Mode: string(claim.Mode)}
	if v.BreakGlass == "" {
		return []recordsv1alpha1.Record{r}
	}
	b := newRecord(c, recordsv1alpha1.TypeBreakGlass, object, v.At.Time, claim.Content, v.User)
	b.Actor, b.Differences, b.Message, b.CausedBy = r.Actor, r.Differences, v.BreakGlass, []string{r.ID}
	return []recordsv1alpha1.Record{r, b}
}

// frozen returns the record of a freeze, or of its end.
func (d *decision) frozen(c recordsv1alpha1.Cluster) recordsv1alpha1.Record {
	r := d.record(c, recordsv1alpha1.TypeFreeze, d.at, d.user.Name, d.after.freeze)
	r.Reason = recordsv1alpha1.ReasonUnfrozen
	if d.after.freeze == "" {
		return r
	}
	if f := approval.Parse(map[string]string{v1alpha1.AnnotationKeyFreeze: d.after.freeze}).Freeze; f != nil { // nil for false
		r.Reason, r.Message = recordsv1alpha1.ReasonFrozen, f.Message
	}
	return r
}

// newRecord with what all records have.
func newRecord(c recordsv1alpha1.Cluster, of recordsv1alpha1.Type, o recordsv1alpha1.Object, at time.Time, occurrence ...string) recordsv1alpha1.Record {
	at = at.UTC().Truncate(time.Microsecond)
	return recordsv1alpha1.Record{
		ID: recordsv1alpha1.ID(c, o, of, at, occurrence...), Type: of, Time: metav1.NewMicroTime(at), Cluster: c, Object: o,
	}
}

// intentID returns the id of the record of a hop of a carrier in a Namespace; "" where the hop has no time, since nothing recorded it.
func intentID(c recordsv1alpha1.Cluster, h v1alpha1.Hop, carrier string) string {
	if h.Timestamp.IsZero() || h.Unattributed {
		return ""
	}
	return recordsv1alpha1.ID(c, hopObject(h, carrier), recordsv1alpha1.TypeIntent, h.Timestamp.Time, generation(h.Generation), h.User)
}

// voteID returns the id of the record of a vote for an approval on an object.
func voteID(c recordsv1alpha1.Cluster, on recordsv1alpha1.Object, content string, v v1alpha1.Vote) string {
	return recordsv1alpha1.ID(c, on, recordsv1alpha1.TypeVote, v.At.Time, content, v.User)
}

func generation(n int64) string { return strconv.FormatInt(n, 10) }

func objectOf(ref parent.Ref) recordsv1alpha1.Object {
	apiVersion, kind := ref.ToAPIVersionAndKind()
	return recordsv1alpha1.Object{APIVersion: apiVersion, Kind: kind, Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
}

func objectOfReference(o v1alpha1.ObjectReference) recordsv1alpha1.Object {
	return recordsv1alpha1.Object{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID, Generation: o.Generation}
}

// hopObject returns the object of a hop, whose carrier is in a Namespace.
func hopObject(h v1alpha1.Hop, carrier string) recordsv1alpha1.Object {
	return recordsv1alpha1.Object{APIVersion: h.APIVersion, Kind: h.Kind, Namespace: trace.NamespaceOf(h, carrier), Name: h.Name, Generation: h.Generation}
}

func hopRef(h v1alpha1.Hop, carrier string) parent.Ref {
	o := hopObject(h, carrier)
	return parent.Ref{GroupVersionKind: schema.FromAPIVersionAndKind(o.APIVersion, o.Kind), Namespace: o.Namespace, Name: o.Name}
}

// hopsOf returns the hops of a trace in brief.
func hopsOf(t trace.Trace, carrier string) []recordsv1alpha1.Hop {
	return lists.Map(t, func(h v1alpha1.Hop) recordsv1alpha1.Hop {
		return recordsv1alpha1.Hop{
			Kind: h.Kind, Namespace: trace.NamespaceOf(h, carrier), Name: h.Name, Generation: h.Generation, User: h.User, Unrequested: h.Unrequested,
		}
	})
}

func causesOf(causes []v1alpha1.HopCause) []recordsv1alpha1.Cause {
	return lists.Map(causes, func(c v1alpha1.HopCause) recordsv1alpha1.Cause {
		return recordsv1alpha1.Cause{Kind: string(c.Kind), Name: c.Name, Author: c.Author}
	})
}

func approversOf(votes []v1alpha1.Vote) []recordsv1alpha1.Approver {
	return lists.Map(votes, func(v v1alpha1.Vote) recordsv1alpha1.Approver {
		return recordsv1alpha1.Approver{User: v.User, Via: v.Via, OnBehalfOf: v.OnBehalfOf, BreakGlass: v.BreakGlass != ""}
	})
}

// ids returns the ids that are not empty.
func ids(list ...string) []string {
	return slices.DeleteFunc(list, func(id string) bool { return id == "" })
}
