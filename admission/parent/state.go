package parent

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Condition is what decisions need of a status condition.
type Condition struct {
	Type               string
	Status             metav1.ConditionStatus
	Reason             string
	ObservedGeneration int64
	LastTransitionTime time.Time
}

// State of a parent, summed up from one version of the object.
type State struct {
	Ref
	Role            Role
	ResourceVersion string
	Generation      int64
	Created         time.Time
	// DeletedAt is the deletionTimestamp, nil while it has none.
	DeletedAt *time.Time
	// Annotations of Kausality's domain and the composition resource name.
	Annotations map[string]string
	// Labels, for the selectors of policies.
	Labels map[string]string

	// ObservedGeneration of status or a True condition, Synced before Ready, and of a
	// composite no later one than it was composed for; valid where HasObserved.
	ObservedGeneration int64
	HasObserved        bool
	// Converged: kstatus is Current, and XRs and MRs are Synced and Ready.
	Converged bool
	// HasStatus: there is any status at all.
	HasStatus bool
	// Paused: crossplane.io/paused is "true".
	Paused bool
	// Copied: its annotations are those of an object that is gone (see Gone).
	Copied bool
	// Member: Parent is an instance of a graph, by the labels of this object.
	Member bool
	// ConvergedSince is the last transition of the deciding conditions; zero
	// where they have none.
	ConvergedSince time.Time

	// Conditions Synced, Ready, Initialized, Kausality and those of
	// asynchronous operations, and whatever else is True. A map would take four
	// times the memory.
	Conditions []Condition
	// Manager that writes status.observedGeneration or the deciding condition.
	Manager string
	// StatusManagers are all that write the status.
	StatusManagers []string
	// IntentTime is the newest managedFields time of a desired-state entry that
	// is neither machinery nor by a manager that also writes the status;
	// IntentManager wrote it. ScaleTime is that of a scale entry.
	IntentTime, ScaleTime time.Time
	IntentManager         string
	// Desired is a digest of the desired state without machinery, of this object in this version of its
	// kind; 0 where it cannot be computed.
	Desired uint64

	// Replicas is spec.replicas; -1 where it is not set.
	Replicas int64

	// Children are the objects spec.resourceRefs (spec.crossplane.resourceRefs)
	// or a Claim's spec.resourceRef name.
	Children []Ref
	// Parent of this object in turn; the zero Ref where it has none.
	Parent Ref
	// ManagementPolicies as stored; nil where the object has none.
	ManagementPolicies []string
	// External resource of an MR; nil for the empty one. A pointer takes less of a cache.
	External *External
	// DeletionPolicy of a legacy MR.
	DeletionPolicy string
	// ClaimTarget: a Claim's spec.resourceRef name, to see that it names back.
	ClaimTarget string
	// CompositionRevision in use, for messages; empty where it is not set.
	CompositionRevision string
}

// Sum returns the summary of an object. It never modifies o.
func Sum(o *unstructured.Unstructured, role Role) *State {
	s := Outline(o, role)
	s.Desired = digest(o, role)
	return s
}

// Outline is Sum without the hash of the desired state, which costs more than all the rest: for what neither reads intents nor
// settles them.
func Outline(o *unstructured.Unstructured, role Role) *State {
	s := &State{
		Ref: RefOf(o), Role: role, ResourceVersion: o.GetResourceVersion(), Generation: o.GetGeneration(),
		Created: o.GetCreationTimestamp().Time, Annotations: keep(o.GetAnnotations()), Labels: o.GetLabels(),
		Paused: IsPaused(o), Replicas: -1,
	}
	if t := o.GetDeletionTimestamp(); t != nil {
		s.DeletedAt = &t.Time
	}
	s.discard()
	s.Parent, _ = Of(o, role)
	s.Member = IsMember(o, role)
	if e := ExternalOf(o); e != "" {
		s.External = &e
	}
	_, s.HasStatus = o.Object["status"]
	s.conditions(o)
	s.observe(o)
	s.managers(o)
	s.spec(o)
	return s
}

// Family returns the part of Sum that spec has: what is below an object, and who it is.
func Family(o *unstructured.Unstructured, role Role) *State {
	s := &State{Ref: RefOf(o), Role: role}
	s.spec(o)
	return s
}

// IsPaused reports whether an object of Crossplane's is paused.
func IsPaused(o *unstructured.Unstructured) bool {
	return annotation(o, "crossplane.io/paused") == "true"
}

// IsStopped reports whether the provider of a managed resource has reported that it is paused, and nothing since: its runtime sets the
// reason of the condition Synced.
func IsStopped(o *unstructured.Unstructured) bool {
	list, _ := child(o.Object, "status")["conditions"].([]any)
	return slices.ContainsFunc(list, func(e any) bool {
		c, _ := e.(map[string]any)
		return text(c, "type") == "Synced" && text(c, "reason") == "ReconcilePaused"
	})
}

// annotation returns an annotation of an object, without a copy of them all; "" where it is not set.
func annotation(o *unstructured.Unstructured, key string) string {
	return text(child(child(o.Object, "metadata"), "annotations"), key)
}

// keep returns the annotations that decisions read; the caches hold states of all parents, and most
// annotations are of other tools.
func keep(in map[string]string) map[string]string {
	var out map[string]string
	for k, v := range in {
		if v1alpha1.IsKausality(k) || k == v1alpha1.AnnotationKeyCompositionResourceName || isApplySet(k) {
			if out == nil {
				out = map[string]string{}
			}
			out[k] = v
		}
	}
	return out
}

// Deleting reports whether the object has a deletionTimestamp.
func (s *State) Deleting() bool { return s.DeletedAt != nil }

// Crossplane reports whether the object's status is Crossplane's: conditions
// only, Synced and Ready.
func (s *State) Crossplane() bool { return s.Role.Crossplane() }

// ConditionResponsive of a composite is False while Crossplane's circuit breaker delays its reconciles, since too many
// events of it and its composed resources came (crossplane, apis/apiextensions/v1 WatchCircuitOpen). Its observed
// generation is the one at which the reconcile that wrote it began.
const ConditionResponsive = "Responsive"

// Throttled reports whether Crossplane's circuit breaker delays the reconciles of a composite (KR-04-16).
func (s *State) Throttled() bool {
	c, ok := s.Condition(ConditionResponsive)
	return ok && s.Role == RoleComposite && c.Status == metav1.ConditionFalse
}

// conditionTypes that are kept whatever their status.
var conditionTypes = map[string]bool{
	"Synced": true, "Ready": true, "Initialized": true, v1alpha1.ConditionKausality: true,
	"LastAsyncOperation": true, "AsyncOperation": true, ConditionResponsive: true,
}

// conditions adds the conditions of the object that decisions read. Of two with the same type, Condition
// returns the first.
func (s *State) conditions(o *unstructured.Unstructured) {
	list, _ := child(o.Object, "status")["conditions"].([]any)
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			continue
		}
		t := text(m, "type")
		if !conditionTypes[t] && m["status"] != "True" {
			continue
		}
		c := Condition{Type: t, Status: metav1.ConditionStatus(text(m, "status")), Reason: text(m, "reason"),
			ObservedGeneration: integer(m["observedGeneration"])}
		c.LastTransitionTime, _ = time.Parse(time.RFC3339, text(m, "lastTransitionTime")) // the zero time where it does not parse
		s.Conditions = append(s.Conditions, c)
	}
}

// integer returns an integer from a decoded number: unstructured objects have int64, plain JSON
// float64. It is 0 for anything else.
func integer(v any) int64 {
	switch t := v.(type) {
	case int64:
		return t
	case float64:
		return int64(t)
	}
	return 0
}

// Condition returns the condition of a type; ok is false where no such condition is kept.
func (s *State) Condition(conditionType string) (c Condition, ok bool) {
	i := slices.IndexFunc(s.Conditions, func(c Condition) bool { return c.Type == conditionType })
	if i < 0 {
		return Condition{}, false
	}
	return s.Conditions[i], true
}

// True reports whether a condition has status True.
func (s *State) True(conditionType string) bool {
	c, _ := s.Condition(conditionType)
	return c.Status == metav1.ConditionTrue
}

// exists reports whether an object has had a generation. A generation that it does not have yet shows nothing: the
// object may be restored from a backup with its status.
func (s *State) exists(generation int64) bool { return s.Generation == 0 || generation <= s.Generation }

// ReportedGeneration returns the generation that the conditions Synced and Ready report as observed; 0 for none. Of a
// composite it may be later than ObservedGeneration: Crossplane composes it as it is when a reconcile begins, and reports
// the generation that it has at the end (KR-03-10).
func (s *State) ReportedGeneration() int64 {
	for _, t := range []string{"Synced", "Ready"} {
		if c, _ := s.Condition(t); c.Status == metav1.ConditionTrue && c.ObservedGeneration > 0 && s.exists(c.ObservedGeneration) {
			return c.ObservedGeneration
		}
	}
	return 0
}

// observe sets the observed generation and whether the object is converged
// (KR-03-01 to KR-03-03). The status of a composite is its author's, so that its
// conditions count and its status.observedGeneration does not.
func (s *State) observe(o *unstructured.Unstructured) {
	if s.Role == RoleInstance {
		s.ObservedGeneration, s.HasObserved = stampedGeneration(s, o)
		s.Converged = s.converged(o)
		return
	}
	if v, found, err := unstructured.NestedFieldNoCopy(o.Object, "status", "observedGeneration"); err == nil && found && s.Role != RoleComposite {
		if generation := integer(v); s.exists(generation) {
			s.ObservedGeneration, s.HasObserved = generation, true
		}
	}
	if generation := s.ReportedGeneration(); !s.HasObserved && generation > 0 {
		s.ObservedGeneration, s.HasObserved = generation, true
		if begun, _ := s.Condition(ConditionResponsive); s.Role == RoleComposite && begun.ObservedGeneration > 0 {
			s.ObservedGeneration = min(generation, begun.ObservedGeneration)
		}
	}
	s.Converged = s.converged(o)
	for _, t := range []string{"Synced", "Ready"} {
		if c, ok := s.Condition(t); ok && c.LastTransitionTime.After(s.ConvergedSince) {
			s.ConvergedSince = c.LastTransitionTime
		}
	}
}

// converged reports whether the object has converged by kstatus, and for Crossplane's kinds also by
// Synced and Ready (KR-03-03); an instance of a graph by its state (KR-18-03).
func (s *State) converged(o *unstructured.Unstructured) bool {
	if s.Role == RoleInstance {
		return instanceConverged(o)
	}
	if s.Crossplane() && (!s.True("Synced") || !s.True("Ready")) {
		return false
	}
	r, err := status.Compute(withoutAuthorsGeneration(o, s.Role))
	return err == nil && r.Status == status.CurrentStatus
}

// withoutAuthorsGeneration hides status.observedGeneration of a composite from
// kstatus: the status is the author's, who may have patched anything there.
func withoutAuthorsGeneration(o *unstructured.Unstructured, role Role) *unstructured.Unstructured {
	st, _ := o.Object["status"].(map[string]any)
	if _, has := st["observedGeneration"]; !has || role != RoleComposite {
		return o
	}
	st = maps.Clone(st)
	delete(st, "observedGeneration")
	out := maps.Clone(o.Object)
	out["status"] = st
	return &unstructured.Unstructured{Object: out}
}

// spec sets what decisions read of the desired state.
func (s *State) spec(o *unstructured.Unstructured) {
	spec, _ := o.Object["spec"].(map[string]any)
	if spec == nil {
		return
	}
	s.DeletionPolicy = text(spec, "deletionPolicy")
	if n, ok := spec["replicas"]; ok {
		s.Replicas = integer(n)
	}
	s.ManagementPolicies = PoliciesOf(o)
	switch s.Role {
	case RoleComposite:
		s.composite(spec)
	case RoleClaim:
		ref := child(spec, "resourceRef")
		s.ClaimTarget = text(ref, "name")
		s.children([]any{ref}, "")
	}
}

// PoliciesOf returns spec.managementPolicies of an object, nil where it is not set. An item that is no string is
// empty.
func PoliciesOf(o *unstructured.Unstructured) []string {
	list, ok := child(o.Object, "spec")["managementPolicies"].([]any)
	if !ok {
		return nil
	}
	out := make([]string, 0, len(list))
	for _, e := range list {
		v, _ := e.(string)
		out = append(out, v)
	}
	return out
}

// composite sets the revision and the composed resources, which are below
// spec.crossplane in Crossplane v2 and in spec before.
func (s *State) composite(spec map[string]any) {
	from := spec
	if x, ok := spec["crossplane"].(map[string]any); ok {
		from = x
	}
	s.CompositionRevision = text(child(from, "compositionRevisionRef"), "name")
	refs, _ := from["resourceRefs"].([]any)
	s.children(refs, s.Namespace)
}

// children adds the children that a composite or Claim references, in their order. namespace is that of
// references without one. Crossplane writes a reference before the object exists.
func (s *State) children(refs []any, namespace string) {
	for _, e := range refs {
		m, _ := e.(map[string]any)
		ref := Ref{GroupVersionKind: schema.FromAPIVersionAndKind(text(m, "apiVersion"), text(m, "kind")), Name: text(m, "name")}
		if ref.Kind == "" || ref.Name == "" {
			continue
		}
		ref.Namespace = cmp.Or(text(m, "namespace"), namespace)
		s.Children = append(s.Children, ref)
	}
}

// SettledGeneration returns the stored generation at which the object settled; -1 where it never
// settled.
func (s *State) SettledGeneration() int64 {
	v, err := strconv.ParseInt(s.Annotations[v1alpha1.AnnotationKeySettledGeneration], 10, 64)
	if err != nil {
		return -1
	}
	return v
}

// Phase returns the phase of the object's life (KR-03-09). settled reports whether it settled at least
// once, stored or not. conditions are those that count for its kind; Initialized and Ready if they are
// empty (KR-02-05).
func (s *State) Phase(settled bool, conditions ...string) v1alpha1.Phase {
	if len(conditions) == 0 {
		conditions = []string{"Initialized", "Ready"}
	}
	switch {
	case s.Deleting():
		return v1alpha1.PhaseDeleting
	case s.Annotations[v1alpha1.AnnotationKeyPhase] == string(v1alpha1.PhaseInitialized),
		s.Annotations[v1alpha1.AnnotationKeyInitialized] == "true",
		slices.ContainsFunc(conditions, s.True), settled && s.HasStatus:
		return v1alpha1.PhaseInitialized
	}
	return v1alpha1.PhaseInitializing
}
