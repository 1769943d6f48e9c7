package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

const (
	hans  = "hans@example.com"
	alice = "alice@example.com"
	// controller reconciles Apps into Parts.
	controller = "system:serviceaccount:apps:app-controller"
)

var (
	namespaces            = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	secrets               = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	drifts                = schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "drifts"}
	driftReceivers        = schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "driftreceivers"}
	webhookConfigurations = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
)

func (f *fleet) resource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: f.name + groupSuffix, Version: "v1", Resource: plural}
}

func (f *fleet) parts() schema.GroupVersionResource { return f.resource("parts") }

func object(fleet, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": fleet + groupSuffix + "/v1", "kind": kind,
		"metadata": map[string]any{"namespace": namespace, "name": name}, "spec": spec,
	}}
}

// fixture is one App with its Parts in a namespace of its own.
type fixture struct {
	*fleet
	t          *testing.T
	ns         string
	hans, ctrl dynamic.Interface
	app        *unstructured.Unstructured
}

// newFixture has the App, created by hans, and nothing settled.
func newFixture(t *testing.T, f *fleet, ns string) *fixture {
	t.Helper()
	s := &fixture{fleet: f, t: t, ns: f.namespace(ns, true), hans: the.as(t, hans), ctrl: the.as(t, controller)}
	var err error
	s.app, err = s.apps(s.hans).Create(t.Context(), object(f.name, "App", ns, "app", map[string]any{"size": int64(1)}), metav1.CreateOptions{})
	require.NoError(t, err)
	return s
}

func (s *fixture) apps(c dynamic.Interface) dynamic.ResourceInterface {
	return c.Resource(s.resource("apps")).Namespace(s.ns)
}

func (s *fixture) of(c dynamic.Interface) dynamic.ResourceInterface {
	return c.Resource(s.fleet.parts()).Namespace(s.ns)
}

// owned by the App as its controller.
func (s *fixture) owned(o *unstructured.Unstructured) *unstructured.Unstructured {
	yes := true
	o.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: s.app.GetAPIVersion(), Kind: s.app.GetKind(), Name: s.app.GetName(), UID: s.app.GetUID(), Controller: &yes,
	}})
	return o
}

func (s *fixture) alice() dynamic.Interface { return the.as(s.t, alice) }

// part as the controller creates it.
func (s *fixture) part(name string) {
	s.t.Helper()
	_, err := s.of(s.ctrl).Create(s.t.Context(), s.owned(object(s.name, "Part", s.ns, name, map[string]any{"count": int64(0)})), metav1.CreateOptions{})
	require.NoError(s.t, err)
}

// count is what controllers and users change of a part.
func (s *fixture) count(c dynamic.Interface, part string, n int, opts ...string) error {
	o := metav1.PatchOptions{}
	if len(opts) > 0 {
		o.DryRun = opts
	}
	_, err := s.of(c).Patch(s.t.Context(), part, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"count":%d}}`, n), o)
	return err
}

// intent of hans on the App.
func (s *fixture) intent(size int) {
	s.t.Helper()
	_, err := s.apps(s.hans).Patch(s.t.Context(), "app", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"size":%d}}`, size), metav1.PatchOptions{})
	require.NoError(s.t, err)
}

// observe: the controller reports that the App is as it should be.
func (s *fixture) observe() {
	s.t.Helper()
	s.status("True")
}

func (s *fixture) status(ready string) {
	s.t.Helper()
	o := s.get()
	body := fmt.Appendf(nil, `{"status":{"observedGeneration":%d,"conditions":[{"type":"Ready","status":%q,"reason":"Any","lastTransitionTime":%q}]}}`,
		o.GetGeneration(), ready, time.Now().UTC().Format(time.RFC3339))
	_, err := s.apps(s.ctrl).Patch(s.t.Context(), "app", types.MergePatchType, body, metav1.PatchOptions{}, "status")
	require.NoError(s.t, err)
}

func (s *fixture) get() *unstructured.Unstructured {
	s.t.Helper()
	o, err := s.apps(s.hans).Get(s.t.Context(), "app", metav1.GetOptions{})
	require.NoError(s.t, err)
	return o
}

// settled creates parts, has the controller report, and waits for the latch.
func (s *fixture) settled(parts ...string) {
	s.t.Helper()
	for _, p := range parts {
		s.part(p)
	}
	s.observe()
	s.awaitLatch()
}

// awaitLatch of the App's last intent.
func (s *fixture) awaitLatch() {
	s.t.Helper()
	wait.Often(s.t, "the latch of the App", 45*time.Second, func() error { return latched(s.get()) })
}

func latched(o *unstructured.Unstructured) error {
	a := o.GetAnnotations()
	own, err := hopOf(o)
	if err != nil {
		return err
	}
	if got := a[v1alpha1.AnnotationKeySettledGeneration]; got != strconv.FormatInt(own.Generation, 10) {
		return fmt.Errorf("settled-generation is %q, the intent's is %d", got, own.Generation)
	}
	return nil
}

// hopOf an object: the last of its trace.
func hopOf(o *unstructured.Unstructured) (v1alpha1.Hop, error) {
	var hops []v1alpha1.Hop
	if err := json.Unmarshal([]byte(o.GetAnnotations()[v1alpha1.AnnotationKeyTrace]), &hops); err != nil || len(hops) == 0 {
		return v1alpha1.Hop{}, errors.New("it has no trace")
	}
	return hops[len(hops)-1], nil
}

// annotate the App as hans; nil removes.
func (s *fixture) annotate(annotations map[string]any) {
	s.t.Helper()
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	require.NoError(s.t, err)
	wait.For(s.t, "the annotation to be taken", wait.Patience, func(ctx context.Context) error {
		_, err := s.apps(s.hans).Patch(ctx, "app", types.MergePatchType, raw, metav1.PatchOptions{})
		return err
	})
}

// claims of the App in a state.
func (s *fixture) claims(state v1alpha1.ClaimState) (n int) {
	s.t.Helper()
	var all []v1alpha1.Claim
	if value := s.get().GetAnnotations()[v1alpha1.AnnotationKeyClaims]; value != "" {
		require.NoError(s.t, json.Unmarshal([]byte(value), &all))
	}
	for _, c := range all {
		if c.State == state {
			n++
		}
	}
	return n
}

// refused reports whether an error is our refusal with a reason.
func refused(err error, reason string) bool {
	var status kerrors.APIStatus
	if !errors.As(err, &status) || !kerrors.IsForbidden(err) && !kerrors.IsInvalid(err) && status.Status().Code != 403 {
		return false
	}
	d := status.Status().Details
	return d != nil && len(d.Causes) > 0 && string(d.Causes[0].Type) == reason
}

// mustRefuse fails unless err is our refusal, and returns the id it suggests to
// approve.
func mustRefuse(t *testing.T, err error, reason string) (id string) {
	t.Helper()
	if !refused(err, reason) {
		t.Fatalf("want a refusal %s, got %v", reason, err)
	}
	if found := suggestedIn.FindStringSubmatch(err.Error()); found != nil {
		id = found[1]
	}
	return id
}

// suggestedIn a refusal is the annotation that approves its change, with its value. A used one, which is removed a while later, is named without.
var suggestedIn = regexp.MustCompile(regexp.QuoteMeta(v1alpha1.AnnotationKeyApprovePrefix) + `([0-9a-f]+)=`)
