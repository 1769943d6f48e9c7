package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// memoryWorld is a World in memory. It counts what is read.
type memoryWorld struct {
	Nothing

	kinds map[schema.GroupKind]identity.Kind
	// live objects by kind and name; cache is what a reader that lags behind
	// sees of them, where it differs.
	live, cache map[string]*parent.State
	err         error
	latch       int64
	// writers of the status of an object, by its key and their user id.
	writers    map[string]bool
	namespaces map[string]v1alpha1.Mode
	// declared on Namespaces beside the mode, and what a live read finds where that differs.
	declared, liveNamespaces map[string]settings.Namespace
	managed                  []*parent.State
	managedErr               error
	components               map[string]bool
	defaults                 *change.Defaults

	cachedReads, liveReads int
}

func newWorld() *memoryWorld {
	w := &memoryWorld{
		kinds: fx.Kinds(), live: map[string]*parent.State{}, cache: map[string]*parent.State{},
		latch: -1, writers: map[string]bool{}, namespaces: map[string]v1alpha1.Mode{},
		components: map[string]bool{"system:serviceaccount:kausality-system:kausality-gate": true},
	}
	return w
}

func key(r parent.Ref) string { return r.Kind + "/" + r.Name }

// add an object as live and cached.
func (w *memoryWorld) add(o *unstructured.Unstructured) *parent.State {
	s := parent.Sum(o, w.Kind(o.GroupVersionKind()).Role)
	w.live[key(s.Ref)] = s
	return s
}

func (w *memoryWorld) Kind(k schema.GroupVersionKind) identity.Kind { return w.kinds[k.GroupKind()] }

func (w *memoryWorld) Parent(_ context.Context, ref parent.Ref, live bool) (*parent.State, error) {
	if live {
		w.liveReads++
	} else {
		w.cachedReads++
	}
	if w.err != nil {
		return nil, w.err
	}
	s := w.live[key(ref)]
	if c, ok := w.cache[key(ref)]; ok && !live {
		s = c
	}
	if s == nil || ref.UID != "" && s.UID != ref.UID {
		return nil, fmt.Errorf("%s: %w", key(ref), ErrNotFound)
	}
	return s, nil
}

func (w *memoryWorld) Settled(parent.Ref) int64                  { return w.latch }
func (w *memoryWorld) StatusWriter(r parent.Ref, id string) bool { return w.writers[key(r)+" "+id] }
func (w *memoryWorld) Namespace(_ context.Context, name string, live bool) (settings.Namespace, error) {
	if ns, ok := w.liveNamespaces[name]; live && ok {
		return ns, nil
	}
	ns := w.declared[name]
	ns.Mode = w.namespaces[name]
	return ns, nil
}
func (w *memoryWorld) Managed(context.Context, *parent.State) ([]*parent.State, error) {
	return w.managed, w.managedErr
}
func (w *memoryWorld) Component(u subject.User, _ string) bool { return w.components[u.Name] }

func (w *memoryWorld) Defaults(schema.GroupVersionKind) *change.Defaults { return w.defaults }

// byCrossplane of an operation by Crossplane's composed apply; mods go to the new
// object.
func byCrossplane(op Operation, old *unstructured.Unstructured, mods ...fx.Mod) *Request {
	r := &Request{Operation: op, User: fx.Crossplane, FieldManager: fx.ComposedManager, Time: fx.Noon,
		Kind: old.GroupVersionKind(), Namespace: old.GetNamespace(), Name: old.GetName()}
	switch op {
	case Create:
		r.Object = fx.With(old, mods...)
		r.Object.SetUID("")
		r.Object.SetGeneration(0)
		r.Object.SetResourceVersion("")
	case Delete:
		r.OldObject, r.FieldManager = fx.With(old, mods...), ""
	default:
		r.OldObject, r.Object = old.DeepCopy(), fx.With(old, mods...)
	}
	return r
}

func by(r *Request, u subject.User, manager string) *Request {
	r.User, r.FieldManager = u, manager
	return r
}

// enforced options.
func enforced() Options { return Options{DefaultMode: v1alpha1.ModeEnforce} }

// decide a request, and check what holds of every decision: inputs stay as they
// are, the same input gives the same output, a dry-run is decided alike, and
// what the decision writes is stable (KR-05-27).
func decide(t *testing.T, w *memoryWorld, opts evaluating, req *Request) Decision {
	t.Helper()
	e := evaluator(opts, w)
	before, states := copyRequest(req), copyStates(w)
	d, err := e.Evaluate(t.Context(), req)
	if err != nil {
		t.Fatalf("cannot decide: %v", err)
	}
	if diff := cmp.Diff(before, req) + cmp.Diff(states, copyStates(w)); diff != "" {
		t.Errorf("inputs modified:\n%s", diff)
	}
	reads := [2]int{w.cachedReads, w.liveReads}
	again := copyRequest(req)
	again.DryRun = true
	d2, err := e.Evaluate(t.Context(), again)
	if err != nil {
		t.Fatalf("cannot decide a dry-run: %v", err)
	}
	if diff := cmp.Diff(d, d2); diff != "" {
		t.Errorf("same request as a dry-run, other decision:\n%s", diff)
	}
	statusApart(t, e, req, d)
	if !d.Allowed && (d.Annotations != nil || d.ManagementPolicies != nil || d.Gate != nil || d.Claim != nil) {
		t.Errorf("a refusal has nothing to write: %+v", d)
	}
	if d.Allowed && req.Object != nil && req.Subresource == "" {
		stable(t, e, req, d)
	}
	w.cachedReads, w.liveReads = reads[0], reads[1]
	return d
}

// statusApart asserts that an update is decided alike where its OldObject leaves
// the status out.
func statusApart(t *testing.T, e *Evaluator, req *Request, want Decision) {
	t.Helper()
	if req.Operation != Update {
		return
	}
	apart := copyRequest(req)
	status := apart.OldObject.Object["status"]
	delete(apart.OldObject.Object, "status")
	apart.OldStatus = func() any { return status }
	got, err := e.Evaluate(t.Context(), apart)
	if err != nil {
		t.Fatalf("cannot decide with the status apart: %v", err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(allowance.Need{})); diff != "" {
		t.Errorf("another decision with the status apart:\n%s", diff)
	}
}

// stable asserts f(f(x)) = f(x): what the decision left is not changed by a
// write that changes nothing, nor by a second decision about the very result.
func stable(t *testing.T, e *Evaluator, req *Request, d Decision) {
	t.Helper()
	result := apply(req.Object, d)
	reinvoked := copyRequest(req)
	reinvoked.Object = result
	d2, err := e.Evaluate(t.Context(), reinvoked)
	if err != nil {
		t.Fatal(err)
	}
	if d.Claim == nil { // a claim is written in between
		if got := apply(result, d2); !cmp.Equal(result, got) || d2.Allowed != d.Allowed || d2.Class != d.Class {
			t.Errorf("reinvoked on its own result: %s/%s, then %s/%s:\n%s", d.Class, d.Reason, d2.Class, d2.Reason, cmp.Diff(result, got))
		}
	}
	stored := persisted(req, result)
	noop := copyRequest(req)
	noop.Operation, noop.OldObject, noop.Object = Update, stored, stored.DeepCopy()
	noop.Name, noop.Time = stored.GetName(), req.Time.Add(time.Minute)
	d3, err := e.Evaluate(t.Context(), noop)
	if err != nil {
		t.Fatal(err)
	}
	if !d3.Allowed || len(d3.Annotations) > 0 || d3.ManagementPolicies != nil || d3.Gate != nil || d3.Fields[ownersPointer] != nil {
		t.Errorf("applying our own output changes it: allowed %t, annotations %s, policies %v, gate %v", d3.Allowed, text(d3.Annotations),
			d3.ManagementPolicies, d3.Gate)
	}
}

// persisted is what the API server stores of a result.
func persisted(req *Request, result *unstructured.Unstructured) *unstructured.Unstructured {
	out := result.DeepCopy()
	if out.GetName() == "" {
		out.SetName("generated")
	}
	if req.OldObject == nil {
		out.SetGeneration(1)
		out.SetUID("new-uid")
		out.SetResourceVersion("1")
	} else if g := req.OldObject.GetGeneration(); g > 0 && !cmp.Equal(req.OldObject.Object["spec"], out.Object["spec"]) {
		out.SetGeneration(g + 1)
	}
	return out
}

// apply a decision's edits to an object.
func apply(o *unstructured.Unstructured, d Decision) *unstructured.Unstructured {
	if d.Rest != nil {
		o = d.Rest
	}
	out := o.DeepCopy()
	a := out.GetAnnotations()
	if a == nil {
		a = map[string]string{}
	}
	for k, v := range d.Annotations {
		if v == nil {
			delete(a, k)
		} else {
			a[k] = *v
		}
	}
	out.SetAnnotations(a)
	if d.ManagementPolicies != nil {
		list := make([]any, 0, len(d.ManagementPolicies))
		for _, p := range d.ManagementPolicies {
			list = append(list, p)
		}
		_ = unstructured.SetNestedSlice(out.Object, list, "spec", "managementPolicies")
	}
	if owners, ok := d.Fields[ownersPointer].([]any); ok {
		_ = unstructured.SetNestedSlice(out.Object, owners, "metadata", "ownerReferences")
	}
	return out
}

func text(edits map[string]*string) string {
	out := map[string]string{}
	for k, v := range edits {
		out[k] = "<removed>"
		if v != nil {
			out[k] = *v
		}
	}
	return fmt.Sprint(out)
}

func copyRequest(r *Request) *Request {
	out := *r
	if r.Object != nil {
		out.Object = r.Object.DeepCopy()
	}
	if r.OldObject != nil {
		out.OldObject = r.OldObject.DeepCopy()
	}
	return &out
}

func copyStates(w *memoryWorld) map[string]parent.State {
	out := map[string]parent.State{}
	for name, m := range map[string]map[string]*parent.State{"live ": w.live, "cache ": w.cache} {
		for k, s := range m {
			c := *s
			c.Annotations, c.Conditions = maps.Clone(s.Annotations), slices.Clone(s.Conditions)
			out[name+k] = c
		}
	}
	return out
}
