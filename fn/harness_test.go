package fn

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

var (
	xrKind = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "XDatabase"}
	t0     = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
)

// stage plays Crossplane and the API server, with the API server's own
// server-side apply.
type stage struct {
	t     *testing.T
	fn    *Function
	now   time.Time
	input string

	// required resources, as Crossplane fetched them.
	required map[string]*fnv1.Resources

	xr   *unstructured.Unstructured
	live map[string]*unstructured.Unstructured
	// stored gives a resource the form in which the API server stores it; nil for as it is applied.
	stored map[string]func(map[string]any)
	// uid of the next object.
	uid int
	// writes of the last reconcile that changed anything, by resource.
	writes []string
	rsp    *fnv1.RunFunctionResponse
}

func newStage(t *testing.T, input string) *stage {
	t.Helper()
	s := &stage{t: t, now: t0, input: input, live: map[string]*unstructured.Unstructured{}}
	s.fn = New(logging.NewNopLogger())
	s.fn.Now = func() time.Time { return s.now }
	s.xr = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.org/v1", "kind": "XDatabase",
		"metadata": map[string]any{
			"name": "db", "namespace": "shop", "uid": "xr-uid", "generation": int64(1),
			"creationTimestamp": t0.Format(time.RFC3339),
		},
		"spec": map[string]any{"size": int64(1)},
	}}
	s.person("kubectl-create", "f:spec", "f:size")
	return s
}

// person writes a field of the XR as a manager.
func (s *stage) person(manager string, path ...string) {
	fields := map[string]any{}
	at := fields
	for _, p := range path {
		next := map[string]any{}
		at[p] = next
		at = next
	}
	list, _, _ := unstructured.NestedSlice(s.xr.Object, "metadata", "managedFields")
	list = slices.DeleteFunc(list, func(e any) bool { return ssa.Text(e.(map[string]any), "manager") == manager })
	list = append(list, map[string]any{
		"manager": manager, "operation": "Update", "apiVersion": "example.org/v1", "fieldsType": "FieldsV1",
		"time": s.now.Format(time.RFC3339), "fieldsV1": fields,
	})
	_ = unstructured.SetNestedSlice(s.xr.Object, list, "metadata", "managedFields")
}

// intend a new size.
func (s *stage) intend(size int64) {
	_ = unstructured.SetNestedField(s.xr.Object, size, "spec", "size")
	s.xr.SetGeneration(s.xr.GetGeneration() + 1)
	s.person("kubectl-edit", "f:spec", "f:size")
}

// annotate the XR; "" removes.
func (s *stage) annotate(key, value string) {
	a := s.xr.GetAnnotations()
	if a == nil {
		a = map[string]string{}
	}
	a[key] = value
	if value == "" {
		delete(a, key)
	}
	s.xr.SetAnnotations(a)
	s.person("kubectl-annotate", "f:metadata", "f:annotations", "f:"+key)
}

// desire is what the templating steps of the pipeline want.
type desire map[string]map[string]any

func (s *stage) request(want desire) *fnv1.RunFunctionRequest {
	req := &fnv1.RunFunctionRequest{
		Meta:     &fnv1.RequestMeta{Tag: "tag"},
		Observed: &fnv1.State{Composite: &fnv1.Resource{Resource: ssa.ToStruct(s.xr.Object)}, Resources: map[string]*fnv1.Resource{}},
		Desired:  &fnv1.State{Resources: map[string]*fnv1.Resource{}},
	}
	if s.required != nil {
		req.RequiredResources = s.required
	}
	if s.input != "" {
		req.Input = &structpb.Struct{}
		if err := req.Input.UnmarshalJSON([]byte(s.input)); err != nil {
			s.t.Fatal(err)
		}
	}
	for name, o := range s.live {
		req.Observed.Resources[name] = &fnv1.Resource{Resource: ssa.ToStruct(o.Object)}
	}
	for name, o := range want {
		req.Desired.Resources[name] = &fnv1.Resource{Resource: ssa.ToStruct(o)}
	}
	return req
}

// run the function alone, checking what must hold of every run.
func (s *stage) run(req *fnv1.RunFunctionRequest) *fnv1.RunFunctionResponse {
	s.t.Helper()
	before := proto.Clone(req)
	rsp, err := s.fn.RunFunction(context.Background(), req)
	if err != nil {
		s.t.Fatalf("RunFunction: %v", err)
	}
	if d := cmp.Diff(before, req, protocmp.Transform()); d != "" {
		s.t.Errorf("the request was modified: -before +after\n%s", d)
	}
	again, _ := s.fn.RunFunction(context.Background(), proto.Clone(req).(*fnv1.RunFunctionRequest))
	if d := cmp.Diff(rsp, again, protocmp.Transform()); d != "" {
		s.t.Errorf("the same request, another response: -first +second\n%s", d)
	}
	second := proto.Clone(req).(*fnv1.RunFunctionRequest)
	second.Desired, second.Context, second.Meta.Tag = rsp.GetDesired(), rsp.GetContext(), "second"
	twice, _ := s.fn.RunFunction(context.Background(), second)
	if d := cmp.Diff(rsp.GetDesired(), twice.GetDesired(), protocmp.Transform()); d != "" {
		s.t.Errorf("a second Kausality step changes the outcome: -one +two\n%s", d)
	}
	if d := cmp.Diff(rsp.GetConditions(), twice.GetConditions(), protocmp.Transform()); d != "" {
		s.t.Errorf("a second Kausality step changes the condition: -one +two\n%s", d)
	}
	iteration := proto.Clone(req).(*fnv1.RunFunctionRequest)
	iteration.Context = rsp.GetContext()
	iterated, _ := s.fn.RunFunction(context.Background(), iteration)
	if d := cmp.Diff(rsp, iterated, protocmp.Transform()); d != "" {
		s.t.Errorf("another run of the same step, another response: -first +second\n%s", d)
	}
	return rsp
}

// reconcile once as Crossplane does.
func (s *stage) reconcile(want desire) *fnv1.RunFunctionResponse {
	s.t.Helper()
	s.rsp = s.run(s.request(want))
	s.writes = nil
	desired := s.rsp.GetDesired().GetResources()
	for name := range s.live {
		if _, ok := desired[name]; !ok {
			delete(s.live, name)
			s.writes = append(s.writes, "delete "+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(desired)) {
		s.apply(name, ssa.Object(desired[name].GetResource()))
	}
	s.status()
	return s.rsp
}

// apply one composed resource under Crossplane's field manager.
func (s *stage) apply(name string, content map[string]any) {
	s.t.Helper()
	o := &unstructured.Unstructured{Object: content}
	old, exists := s.live[name]
	if exists {
		o.SetName(old.GetName())
	} else if o.GetName() == "" {
		o.SetName("db-" + name)
	}
	o.SetNamespace("shop")
	a := o.GetAnnotations()
	if a == nil {
		a = map[string]string{}
	}
	a[v1alpha1.AnnotationKeyCompositionResourceName] = name
	o.SetAnnotations(a)
	l := o.GetLabels()
	if l == nil {
		l = map[string]string{}
	}
	l["crossplane.io/composite"] = "db"
	o.SetLabels(l)
	yes := true
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: "XDatabase", Name: "db", UID: "xr-uid",
		Controller: &yes, BlockOwnerDeletion: &yes}})
	after, changed := s.serverSideApply(old, o, s.stored[name])
	if !changed {
		return
	}
	verb := "update"
	if !exists {
		verb = "create"
		s.uid++
		after.SetUID(types.UID(fmt.Sprintf("uid-%d", s.uid)))
		after.SetCreationTimestamp(metav1.NewTime(s.now))
	}
	if !exists || !change.Same(change.Desired(old.Object), change.Desired(after.Object)) {
		after.SetGeneration(after.GetGeneration() + 1)
	} else {
		verb = "annotate"
		if was, is := heldOf(old), heldOf(after); was != is {
			verb = map[bool]string{true: "hold", false: "release"}[is != ""]
		}
	}
	s.writes = append(s.writes, verb+" "+name)
	s.live[name] = after
}

func heldOf(o *unstructured.Unstructured) string {
	return o.GetAnnotations()[v1alpha1.AnnotationKeyHeld]
}

func composedManager() string { return subject.ComposedManager("db", xrKind.GroupKind()) }

func (s *stage) serverSideApply(old, applied *unstructured.Unstructured, stored func(map[string]any)) (*unstructured.Unstructured, bool) {
	s.t.Helper()
	gvk := applied.GroupVersionKind()
	fm := managedfieldstest.NewFakeFieldManager(managedfields.NewDeducedTypeConverter(), gvk)
	live := &unstructured.Unstructured{Object: map[string]any{}}
	if old != nil {
		live = old.DeepCopy()
	} else {
		live.SetGroupVersionKind(gvk)
		live.SetName(applied.GetName())
	}
	out, err := fm.Apply(live, applied, composedManager(), true)
	if err != nil {
		s.t.Fatalf("cannot apply: %v", err)
	}
	after := out.(*unstructured.Unstructured)
	if stored != nil {
		stored(after.Object)
	}
	if old != nil && cmp.Equal(withoutTimes(old), withoutTimes(after)) {
		return old, false
	}
	s.stampTimes(old, after)
	return after, true
}

// stampTimes puts the stage's clock in for the real one.
func (s *stage) stampTimes(old, after *unstructured.Unstructured) {
	before := map[string]*metav1.Time{}
	if old != nil {
		for _, e := range old.GetManagedFields() {
			before[e.Manager] = e.Time
		}
	}
	entries := after.GetManagedFields()
	for i := range entries {
		now := metav1.NewTime(s.now)
		if entries[i].Time = before[entries[i].Manager]; entries[i].Manager == composedManager() {
			entries[i].Time = &now
		}
	}
	after.SetManagedFields(entries)
}

func withoutTimes(o *unstructured.Unstructured) map[string]any {
	c := o.DeepCopy()
	entries := c.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	c.SetManagedFields(entries)
	return c.Object
}

// update a live resource by another field manager.
func (s *stage) update(name, manager string, mutate func(map[string]any)) {
	s.t.Helper()
	old := s.live[name]
	o := old.DeepCopy()
	mutate(o.Object)
	fm := managedfieldstest.NewFakeFieldManager(managedfields.NewDeducedTypeConverter(), o.GroupVersionKind())
	out, err := fm.Update(old.DeepCopy(), o, manager)
	if err != nil {
		s.t.Fatalf("cannot update: %v", err)
	}
	after := out.(*unstructured.Unstructured)
	if !change.Same(change.Desired(old.Object), change.Desired(after.Object)) {
		after.SetGeneration(after.GetGeneration() + 1)
	}
	s.live[name] = after
}

// status that Crossplane and the providers write.
func (s *stage) status() {
	var conditions []any
	if old, _, _ := unstructured.NestedSlice(s.xr.Object, "status", "conditions"); len(old) > 0 {
		conditions = slices.DeleteFunc(old, func(e any) bool {
			return strings.HasPrefix(ssa.Text(e.(map[string]any), "type"), v1alpha1.ConditionKausality)
		})
	}
	for _, c := range s.rsp.GetConditions() {
		status := map[fnv1.Status]string{fnv1.Status_STATUS_CONDITION_TRUE: "True", fnv1.Status_STATUS_CONDITION_FALSE: "False"}[c.GetStatus()]
		conditions = append(conditions, map[string]any{"type": c.GetType(), "status": status, "reason": c.GetReason(), "message": c.GetMessage(),
			"lastTransitionTime": s.now.Format(time.RFC3339)})
	}
	_ = unstructured.SetNestedSlice(s.xr.Object, conditions, "status", "conditions")
}

// ready: everything converges.
func (s *stage) ready() {
	var conditions []any
	if old, _, _ := unstructured.NestedSlice(s.xr.Object, "status", "conditions"); len(old) > 0 {
		conditions = slices.DeleteFunc(old, func(e any) bool {
			return !strings.HasPrefix(ssa.Text(e.(map[string]any), "type"), v1alpha1.ConditionKausality)
		})
	}
	for _, t := range []string{"Synced", "Ready"} {
		conditions = append(conditions, map[string]any{"type": t, "status": "True", "observedGeneration": s.xr.GetGeneration(),
			"lastTransitionTime": s.now.Format(time.RFC3339)})
	}
	_ = unstructured.SetNestedSlice(s.xr.Object, conditions, "status", "conditions")
	for name, o := range s.live {
		s.setStatus(name, map[string]any{"conditions": []any{
			map[string]any{"type": "Synced", "status": "True", "observedGeneration": o.GetGeneration(), "lastTransitionTime": s.now.Format(time.RFC3339)},
			map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": s.now.Format(time.RFC3339)},
		}})
	}
}

func (s *stage) setStatus(name string, status map[string]any) {
	o := s.live[name].DeepCopy()
	_ = unstructured.SetNestedMap(o.Object, status, "status")
	s.live[name] = o
}

// settle: ready, and the grace period goes by.
func (s *stage) settle(want desire) {
	s.t.Helper()
	s.ready()
	s.now = s.now.Add(time.Minute)
	s.reconcile(want)
	s.stable(want)
}

// stable: further reconciles write nothing, and what is wanted is the same to the
// byte, at any later time.
func (s *stage) stable(want desire) {
	s.t.Helper()
	var last *fnv1.State
	for range 3 {
		s.now = s.now.Add(time.Minute)
		s.reconcile(want)
		if len(s.writes) > 0 {
			s.t.Errorf("not stable: %v", s.writes)
		}
		if last != nil && !proto.Equal(last, s.rsp.GetDesired()) {
			s.t.Errorf("a minute later the same is wanted differently: -before +after\n%s", cmp.Diff(last, s.rsp.GetDesired(), protocmp.Transform()))
		}
		last = s.rsp.GetDesired()
	}
}

func (s *stage) condition() (status fnv1.Status, reason, message string) {
	s.t.Helper()
	for _, c := range s.rsp.GetConditions() {
		if c.GetType() == v1alpha1.ConditionKausality {
			return c.GetStatus(), c.GetReason(), c.GetMessage()
		}
	}
	s.t.Fatalf("no condition, got %v", s.rsp.GetConditions())
	return
}

func (s *stage) wantReason(want string) {
	s.t.Helper()
	if _, reason, message := s.condition(); reason != want {
		s.t.Errorf("condition: want %s, got %s: %s", want, reason, message)
	}
}

func (s *stage) wantWrites(want ...string) {
	s.t.Helper()
	if d := cmp.Diff(want, s.writes); d != "" {
		s.t.Errorf("writes: -want +got\n%s", d)
	}
}

func (s *stage) trace(name string) trace.Trace {
	return trace.Of(s.live[name].GetAnnotations())
}

func (s *stage) field(name string, path ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(s.live[name].Object, path...)
	return v
}

// database is an MR as a templating function wants it.
func database(size int64, extra ...string) map[string]any {
	forProvider := map[string]any{"size": size}
	for i := 0; i+1 < len(extra); i += 2 {
		forProvider[extra[i]] = extra[i+1]
	}
	return map[string]any{"apiVersion": "cloud.example.org/v1", "kind": "Database", "spec": map[string]any{
		"forProvider": forProvider, "managementPolicies": []any{"*"},
	}}
}

// plain is an object of no Crossplane kind.
func plain(value string) map[string]any {
	return map[string]any{"apiVersion": "app.example.org/v1", "kind": "Thing", "spec": map[string]any{"value": value}}
}
