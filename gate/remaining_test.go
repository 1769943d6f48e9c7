package gate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// store of events, which refuses creations while *down.
func eventStore(t *testing.T, down *bool) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, eventsv1.AddToScheme(scheme))
	require.NoError(t, corev1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if *down {
				return errors.New("the API server is down")
			}
			return c.Create(ctx, o, opts...)
		},
	}).Build()
}

func listed(t *testing.T, c client.Client) []eventsv1.Event {
	t.Helper()
	list := &eventsv1.EventList{}
	require.NoError(t, c.List(t.Context(), list))
	return list.Items
}

func instance() *states.Object {
	return &states.Object{State: &parent.State{Ref: parent.Ref{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Instance"}, Name: "inst", UID: "mr-uid"}}}
}

func differing(id string) gating.Decision {
	return gating.Decision{Drift: &v1alpha1.DriftSpec{ID: id, SuggestedApproval: "kubectl annotate …",
		Difference: []v1alpha1.FieldDifference{{Path: "spec.forProvider.size", Old: "9", New: "1"}}}}
}

// A difference that remains is one event, whatever is reconciled and restarted; another
// difference is another one (KR-08-53).
func TestRemaining(t *testing.T) {
	down := true
	store, o := eventStore(t, &down), instance()
	c := &reporter{drifts: store, log: logr.Discard()}
	if again := c.announceRemaining(t.Context(), o, differing("a1"), nil); again != retryEvery {
		t.Errorf("not written, again in %s", again)
	}
	down = false
	for range 3 {
		if again := c.announceRemaining(t.Context(), o, differing("a1"), nil); again != renewEvery {
			t.Errorf("again in %s", again)
		}
	}
	restarted := &reporter{drifts: store, log: logr.Discard()}
	restarted.announceRemaining(t.Context(), o, differing("a1"), nil)
	all := listed(t, store)
	if len(all) != 1 || all[0].Series != nil {
		t.Fatalf("%d events: %+v", len(all), all)
	}
	e := all[0]
	if e.Regarding.UID != "mr-uid" || e.Namespace != "default" || e.Reason != "ExternalDrift" || e.Type != "Warning" ||
		!strings.Contains(e.Note, "spec.forProvider.size is 9, should be 1") || !strings.Contains(e.Note, "kubectl annotate …") {
		t.Errorf("%+v", e)
	}
	if again := c.announceRemaining(t.Context(), o, gating.Decision{Again: time.Minute}, nil); again != time.Minute {
		t.Errorf("nothing differs, again in %s", again)
	}
	c.announceRemaining(t.Context(), o, differing("b2"), nil)
	if all := listed(t, store); len(all) != 2 {
		t.Errorf("another difference: %d events", len(all))
	}
}

// The event is renewed while the difference remains, and written again where the API server
// has forgotten it (KR-08-53).
func TestRemainingRenewed(t *testing.T) {
	down := false
	store, o := eventStore(t, &down), instance()
	c := &reporter{drifts: store, log: logr.Discard()}
	later := func() {
		e := c.remaining.of(o.State.Ref)
		e.written = e.written.Add(-renewEvery)
		c.remaining.note(o.State.Ref, e)
	}
	for count := int32(2); count < 4; count++ {
		c.announceRemaining(t.Context(), o, differing("a1"), nil)
		later()
		c.announceRemaining(t.Context(), o, differing("a1"), nil)
		all := listed(t, store)
		if len(all) != 1 || all[0].Series == nil || all[0].Series.Count != count {
			t.Fatalf("renewed to %d: %+v", count, all)
		}
	}
	require.NoError(t, store.DeleteAllOf(t.Context(), &eventsv1.Event{}, client.InNamespace("default")))
	later()
	c.announceRemaining(t.Context(), o, differing("a1"), nil)
	if all := listed(t, store); len(all) != 1 {
		t.Errorf("forgotten and not written again: %+v", all)
	}
}

// The API server bounds names and notes.
func TestRemainingBounds(t *testing.T) {
	o := instance()
	o.State.Name = strings.Repeat("a", 179) + "." + strings.Repeat("b", 60)
	d := *differing("0123456789abcdef").Drift
	d.Difference[0].Old = strings.Repeat("ä", 2000)
	d.SuggestedApproval = strings.Repeat("x", 900)
	e := newRemainingEvent(o, d.ID, eventOfDrift(d, ""), time.Now())
	if len(e.Name) > 253 || strings.Contains(e.Name, "..") || len(e.Note) > 1024 || !strings.Contains(e.Note, "ä…") {
		t.Errorf("%q, %d bytes: %s", e.Name, len(e.Note), e.Note)
	}
}

// TestRemainingLacks covers KR-14-12: the event has what the votes lack, beside a difference of any length.
func TestRemainingLacks(t *testing.T) {
	const lacks = "1 of 2 approvals (anna@example.com); needs 1 more of group dba, not hans@example.com (ApprovalRule databases)"
	d := *differing("0123456789abcdef").Drift
	d.Difference[0].Old = strings.Repeat("x", 2000)
	d.SuggestedApproval = "kubectl annotate -n " + strings.Repeat("n", 63) + " xdatabases.example.org orders kausality.io/approve-0123456789abcdef=once"
	e := newRemainingEvent(instance(), d.ID, eventOfDrift(d, lacks), time.Now())
	if !strings.Contains(e.Note, lacks) || !strings.Contains(e.Note, d.SuggestedApproval) {
		t.Error(e.Note)
	}
}

// Each once approval that a write uses up has one event, on the object whose gate was open by
// it (KR-08-54).
func TestApprovalUsed(t *testing.T) {
	claims := func(state v1alpha1.ClaimState) string {
		return `[{"content":"c1","id":"1","state":"` + string(state) + `","at":"2026-01-02T12:00:00Z"},{"content":"c2","state":"used","at":"2026-01-02T12:00:00Z"}]`
	}
	holder := &parent.State{Ref: parent.Ref{GroupVersionKind: schema.GroupVersionKind{Kind: "XDatabase"}, Name: "db"},
		Annotations: map[string]string{v1alpha1.AnnotationKeyClaims: claims(v1alpha1.ClaimPending)}}
	used := claims(v1alpha1.ClaimUsed)
	got := emitted(func(c *Controller) {
		c.reporter.announceClaims(instance(), holder, map[string]*string{v1alpha1.AnnotationKeyClaims: &used})
		c.reporter.announceClaims(instance(), holder, nil)
		holder.Annotations[v1alpha1.AnnotationKeyClaims] = used
		c.reporter.announceClaims(instance(), holder, map[string]*string{v1alpha1.AnnotationKeyClaims: &used})
	})
	if len(got) != 1 || !strings.HasPrefix(got[0], "Normal ApprovalUsed The once approval on XDatabase db is used up") {
		t.Errorf("%q", got)
	}
	d := gating.Decision{Action: gating.ActionClose, Gate: v1alpha1.Gate{Reason: v1alpha1.GateReasonConfirmed, At: metav1.Now()},
		Edits: map[string]*string{v1alpha1.AnnotationKeyClaims: &used}}
	own := objectWith(map[string]string{v1alpha1.AnnotationKeyClaims: claims(v1alpha1.ClaimPending)})
	if got := emitted(func(c *Controller) { c.reporter.announce(own, gating.Managed{}, d) }); len(got) != 2 || !strings.HasPrefix(got[1], "Normal ApprovalUsed") {
		t.Errorf("its own approval: %q", got)
	}
}

// In mode log, what mode enforce would hold is one event and is counted once; a change of
// the object is none (KR-08-55).
func TestWouldHold(t *testing.T) {
	down := false
	store, o := eventStore(t, &down), instance()
	cl, err := cluster.New(&rest.Config{Host: "127.0.0.1:1"})
	require.NoError(t, err)
	c := leader(cl, &reporter{drifts: store})
	counted := func() (sum float64) {
		r := prometheus.NewRegistry()
		r.MustRegister(wouldHold)
		families, err := r.Gather()
		require.NoError(t, err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
		return sum
	}
	before := counted()
	o.Generation, o.ManagementPolicies = 1, []string{"*"}
	report := func(diff ...change.Change) time.Duration {
		g := gating.Of(o.State, identity.Kind{ManagementPolicies: true}, o.External, settings.Settings{}, gating.Defaults{})
		g.Mode, g.Difference, g.Comparable, g.Holders = v1alpha1.ModeLog, diff, true, []identity.Holder{{State: o.State}}
		return c.reporter.reportRemaining(t.Context(), o, g, gating.Decision{})
	}
	size := change.Change{Path: "spec.forProvider.size", Verb: change.Mutate, Old: "9", New: "1"}
	report(size)
	if n := len(listed(t, store)); n != 0 || counted() != before {
		t.Fatalf("a change that is not carried out yet: %d events, counted %v", n, counted()-before)
	}
	report()
	for range 3 {
		if again := report(size); again != renewEvery {
			t.Errorf("again in %s", again)
		}
	}
	all := listed(t, store)
	if len(all) != 1 || all[0].Reason != "GateWouldHold" || counted() != before+1 ||
		!strings.Contains(all[0].Note, "spec.forProvider.size is \"9\", should be \"1\"") {
		t.Fatalf("counted %v: %+v", counted()-before, all)
	}
	if again := report(); again != 0 {
		t.Errorf("it is reverted, again in %s", again)
	}
	report(size)
	if counted() != before+2 {
		t.Errorf("another time: counted %v", counted()-before)
	}
	c.changed(o, nil)
	if c.reporter.shadows.of(o.State.Ref) != 0 || c.reporter.remaining.of(o.State.Ref).id == all[0].Name {
		t.Error("a deleted object is remembered")
	}
}
