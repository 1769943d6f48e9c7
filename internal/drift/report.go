package drift

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
)

const (
	// HomeNamespace holds the Drifts of cluster-scoped objects.
	HomeNamespace = identity.HomeNamespace
	// maxObject is the size of the largest object in a report, in bytes.
	maxObject = 256 << 10
	// maxGroups of a user are recorded, maxLabels of an object are sent.
	maxGroups = 16
	maxLabels = 32
)

// object returns the Drift of a report: in the namespace of the parent, else of the child, else in
// HomeNamespace, and owned by the parent (KR-10-01).
func object(r *admission.Report) *v1alpha1.Drift {
	d := &v1alpha1.Drift{Spec: r.Drift}
	d.Name, d.Namespace = r.Drift.ID, identity.DriftNamespace(r.ParentRef.Namespace, r.Drift.Child.Namespace)
	d.OwnerReferences = ownersOf(r.ParentRef)
	return d
}

// ownersOf the Drifts of a parent; nil where it is not known.
func ownersOf(p parent.Ref) []metav1.OwnerReference {
	if p.UID == "" {
		return nil
	}
	apiVersion, kind := p.ToAPIVersionAndKind()
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: p.Name, UID: p.UID}}
}

// boundedRequest returns a request as a Drift has it; nil for nil.
func boundedRequest(r *v1alpha1.ReportRequest) *v1alpha1.ReportRequest {
	if r == nil {
		return nil
	}
	out := *r
	out.Groups = slices.Clone(r.Groups[:min(len(r.Groups), maxGroups)])
	for i := range out.Groups {
		out.Groups[i] = annotation.Cut(out.Groups[i], v1alpha1.MaxCauseName)
	}
	return &out
}

// ReportOptions are what an operator chooses about the content of reports.
type ReportOptions struct {
	// Cluster is its name in each report.
	Cluster string
	// Links are NAME=URL; {cluster}, {namespace}, {kind}, {name} and {id} in the URL are replaced by what the
	// report has of the parent.
	Links []string
	// Objects adds the whole child to each report (KR-10-18).
	Objects bool
}

// Check the links.
func (o ReportOptions) Check() error {
	for _, l := range o.Links {
		name, to, ok := strings.Cut(l, "=")
		u, err := url.Parse(placeholders.Replace(to))
		if !ok || name == "" || err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return fmt.Errorf("--drift-webhook-link: %q must be NAME=URL, as in console=https://HOST/{namespace}/{name}", l)
		}
	}
	return nil
}

// placeholders of a link, without values.
var placeholders = strings.NewReplacer("{cluster}", "x", "{namespace}", "x", "{kind}", "x", "{name}", "x", "{id}", "x")

// Author of DriftReports: it writes them from Drifts and what is stored beside them (KR-10-17).
type Author struct {
	ReportOptions
	Objects Objects
	// Kind of objects.
	Kind func(schema.GroupVersionKind) identity.Kind
	// Content of an object as it is now; nil where it does not exist.
	Content func(context.Context, parent.Ref) (map[string]any, error)
	// Secrets are the fields of an object with secret values, by its schema and its policy (KR-13-26).
	Secrets func(parent.Ref, map[string]string) change.SecretFields
	// Initialized returns the condition types by which a kind counts as initialized; nil, and an empty
	// list, leave it to Initialized and Ready.
	Initialized func(schema.GroupKind) []string
}

// AuthorOf a cluster's reports.
func AuthorOf(c *cluster.Cluster, o ReportOptions) *Author {
	return &Author{
		ReportOptions: o, Objects: c.States, Kind: c.Kinds.Kind, Content: c.States.Content, Initialized: c.Policies.Initialized,
		Secrets: func(ref parent.Ref, labels map[string]string) change.SecretFields {
			return c.Kinds.Kind(ref.GroupVersionKind).SecretFields.And(c.Settings(ref, labels).SecretFields)
		},
	}
}

// Write the report that a drift is in a phase. What cannot be read is left out of it: a report that is late is worth less
// than one without the state of the parent.
func (a *Author) Write(ctx context.Context, d *v1alpha1.Drift, phase v1alpha1.DriftPhase) v1alpha1.DriftReport {
	out := reportOf(d, phase)
	s := &out.Spec
	s.Cluster = a.Cluster
	ref := identity.Ref(d.Spec.Parent)
	if p, err := a.Objects.Look(ctx, ref); err == nil {
		a.describe(&s.Parent, p.State)
	}
	if c := identity.Ref(d.Spec.Child); c.Name != "" {
		if o, err := a.Objects.Look(ctx, c); err == nil {
			s.Child.Labels = labelsOf(o.State)
		}
	}
	s.Commands = commandsOf(d, ref, a.Kind)
	for _, l := range a.Links {
		name, to, _ := strings.Cut(l, "=")
		s.Links = append(s.Links, v1alpha1.ReportLink{Name: name, URL: a.link(to, d)})
	}
	if a.ReportOptions.Objects {
		a.addObjects(ctx, s, d)
	}
	return out
}

// link with what a drift has in place of its placeholders.
func (a *Author) link(to string, d *v1alpha1.Drift) string {
	p := d.Spec.Parent
	return strings.NewReplacer("{cluster}", url.QueryEscape(a.Cluster), "{namespace}", url.QueryEscape(d.Namespace), "{kind}", url.QueryEscape(p.Kind),
		"{name}", url.QueryEscape(p.Name), "{id}", url.QueryEscape(d.Spec.ID)).Replace(to)
}

// describe a parent in a report.
func (a *Author) describe(out *v1alpha1.ReportParent, p *parent.State) {
	var conditions []string
	if a.Initialized != nil {
		conditions = a.Initialized(p.GroupKind())
	}
	out.ObservedGeneration, out.ControllerManager = p.ObservedGeneration, p.Manager
	out.LifecyclePhase = lifecyclePhases[p.Phase(p.SettledGeneration() > 0, conditions...)]
	out.Labels = labelsOf(p)
	intent, _ := trace.Intent(p)
	out.Intent = &v1alpha1.ReportIntent{User: intent.User, Generation: intent.Generation, Labels: intent.Labels}
	if !intent.Timestamp.IsZero() {
		out.Intent.At = new(intent.Timestamp)
	}
}

// labelsOf returns the first maxLabels labels of an object, which are sent; nil for none.
func labelsOf(s *parent.State) map[string]string {
	var out map[string]string
	for _, k := range slices.Sorted(maps.Keys(s.Labels)) {
		if len(out) == maxLabels {
			break
		}
		if out == nil {
			out = map[string]string{}
		}
		out[k] = s.Labels[k]
	}
	return out
}

// commandsOf who decides about a drift below a parent.
func commandsOf(d *v1alpha1.Drift, p parent.Ref, kind func(schema.GroupVersionKind) identity.Kind) []v1alpha1.ReportCommand {
	var out []v1alpha1.ReportCommand
	add := func(name, command string) { out = append(out, v1alpha1.ReportCommand{Name: name, Command: command}) }
	if c := d.Spec.SuggestedApproval; c != "" {
		add("approve", c)
	}
	ns := "-n " + d.Namespace + " "
	if change.IsID(d.Spec.ID) {
		add("reject", "kubectl kausality reject "+ns+d.Spec.ID+` --reason "TEXT"`)
	}
	if c := identity.Ref(d.Spec.Child); c.Name != "" {
		add("explain", "kubectl kausality explain "+slashed(identity.Target(c, kind(c.GroupVersionKind))))
	}
	if p.Name != "" {
		add("trace", "kubectl kausality trace "+slashed(identity.Target(p, kind(p.GroupVersionKind))))
	}
	return out
}

// slashed returns a target of kubectl as the plugin takes it: TYPE/NAME.
func slashed(target string) string {
	words := strings.Split(target, " ")
	if n := len(words); n == 2 || n == 4 {
		return strings.Join(append(words[:n-2:n-2], words[n-2]+"/"+words[n-1]), " ")
	}
	return target
}

// addObjects to a report: the child as it is stored, and with the difference.
func (a *Author) addObjects(ctx context.Context, s *v1alpha1.DriftReportSpec, d *v1alpha1.Drift) {
	ref := identity.Ref(d.Spec.Child)
	if ref.Name == "" || d.Spec.Operation == string(admission.Create) {
		return
	}
	content, err := a.Content(ctx, ref)
	if err != nil || content == nil {
		return
	}
	metadata, _ := content["metadata"].(map[string]any)
	labels := map[string]string{}
	if l, ok := metadata["labels"].(map[string]any); ok {
		for k, v := range l {
			labels[k], _ = v.(string)
		}
	}
	content = a.Secrets(ref, labels).RedactObject(content)
	if s.OldObject = raw(content); s.OldObject == nil {
		return
	}
	if d.Spec.Operation != string(admission.Update) || d.Status.Holder == v1alpha1.HolderFunction {
		s.NewObject = s.OldObject
		return
	}
	if len(d.Spec.Difference) < identity.MaxReportFields {
		if changed, ok := change.With(content, d.Spec.Difference); ok {
			s.NewObject = raw(changed)
		}
	}
}

// raw encodes an object for a report, without managedFields (KR-13-01); nil if it is too large to send.
func raw(content map[string]any) *runtime.RawExtension {
	content = maps.Clone(content)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "managedFields")
		content["metadata"] = metadata
	}
	out, err := json.Marshal(content)
	if err != nil || len(out) > maxObject {
		return nil
	}
	return &runtime.RawExtension{Raw: out}
}

// reportOf a drift: what the Drift alone has.
func reportOf(d *v1alpha1.Drift, phase v1alpha1.DriftPhase) v1alpha1.DriftReport {
	spec, status := d.Spec, d.Status
	out := v1alpha1.DriftReport{Spec: v1alpha1.DriftReportSpec{
		ID: spec.ID, ReportID: reportID(d, phase), Phase: phase, Relation: spec.Relation, Title: titleOf(d, phase),
		Drift: v1alpha1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Drift", Namespace: d.Namespace, Name: d.Name, UID: d.UID},
		Child: v1alpha1.ReportChild{ObjectReference: spec.Child}, Parent: v1alpha1.ReportParent{ObjectReference: spec.Parent},
		Since: status.Since, LastSeen: status.LastSeen, Count: status.Count, Difference: spec.Difference, Cause: spec.Cause, Causes: spec.Causes,
		Holder: status.Holder, Votes: status.Votes, Lacks: status.Lacks, SuggestedApproval: spec.SuggestedApproval, Request: spec.Request,
	}}
	switch phase {
	case v1alpha1.DriftResolved:
		out.Spec.Resolution, out.Spec.Approval = status.Resolution, status.Approval
	case v1alpha1.DriftBrokenGlass:
		out.Spec.BrokenGlass = status.BrokenGlass
	case v1alpha1.DriftDetected:
	}
	out.APIVersion, out.Kind = v1alpha1.GroupVersion.String(), "DriftReport"
	return out
}

// reportID is the same each time that a phase of an occurrence is sent.
func reportID(d *v1alpha1.Drift, phase v1alpha1.DriftPhase) string {
	since := ""
	if d.Status.Since != nil {
		since = d.Status.Since.UTC().Format("20060102T150405Z")
	}
	return strings.ToLower(d.Spec.ID + "-" + since + "-" + string(phase))
}

// titleOf a report: one line.
func titleOf(d *v1alpha1.Drift, phase v1alpha1.DriftPhase) string {
	child := identity.Describe(identity.Ref(d.Spec.Child))
	if phase == v1alpha1.DriftResolved {
		return annotation.Cut("Resolved: "+child+": "+d.Status.Resolution+approval.ByText(d.Status.Approval), v1alpha1.MaxCauseName)
	}
	if g := d.Status.BrokenGlass; g != nil && phase == v1alpha1.DriftBrokenGlass {
		return annotation.Cut("Broken glass: "+child+" was changed, approved by "+g.User+" alone: "+g.BreakGlass, v1alpha1.MaxCauseName)
	}
	what := "the external resource of " + child + " differs"
	if op := d.Spec.Operation; op != "" {
		what = "unrequested " + op + " of " + child
	}
	if d.Spec.Cause != "" {
		what += ", by " + d.Spec.Cause
	}
	return annotation.Cut("Detected: "+what, v1alpha1.MaxCauseName)
}

// lifecyclePhases are the phases as reports spell them.
var lifecyclePhases = map[v1alpha1.Phase]string{
	v1alpha1.PhaseInitializing: "Initializing",
	v1alpha1.PhaseInitialized:  "Initialized",
	v1alpha1.PhaseDeleting:     "Deleting",
}
