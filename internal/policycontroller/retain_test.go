package policycontroller

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func compiled(t *testing.T, resources ...v1alpha1.GuardedResources) (*v1alpha1.Kausality, settings.Set) {
	t.Helper()
	k := &v1alpha1.Kausality{ObjectMeta: metav1.ObjectMeta{Name: "shop", Generation: 3}}
	k.Spec.Resources = resources
	set, errs := settings.Compile([]*v1alpha1.Kausality{k})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return k, set
}

func resources(group string, names ...string) v1alpha1.GuardedResources {
	return v1alpha1.GuardedResources{APIGroups: []string{group}, Resources: names}
}

// TestDropped covers KR-12-09.
func TestDropped(t *testing.T) {
	live := &admissionregistrationv1.MutatingWebhookConfiguration{}
	for _, r := range [][2]string{{"a.org", "*"}, {"a.org", "*/scale"}, {"b.org", "dbs"}, {"b.org", "dbs/status"}, {"", "secrets"}} {
		live.Webhooks = append(live.Webhooks, admissionregistrationv1.MutatingWebhook{Rules: []admissionregistrationv1.RuleWithOperations{{
			Rule: admissionregistrationv1.Rule{APIGroups: []string{r[0]}, Resources: []string{r[1]}},
		}}})
	}
	cases := map[string]struct {
		reason string
		wanted []v1alpha1.GuardedResources
		want   []string
	}{
		"Same": {reason: "what is wanted still is not dropped",
			wanted: []v1alpha1.GuardedResources{resources("a.org", "*"), resources("b.org", "dbs"), resources("", "secrets")}},
		"Wider": {reason: "nor what a wildcard covers now",
			wanted: []v1alpha1.GuardedResources{resources("a.org", "*"), resources("b.org", "*"), resources("", "secrets")}},
		"Narrower": {reason: "of a wildcard, what is not named any more may be anything",
			wanted: []v1alpha1.GuardedResources{resources("a.org", "dbs"), resources("b.org", "dbs"), resources("", "secrets")},
			want:   []string{"*.a.org"}},
		"Gone": {reason: "a group that is not named at all", wanted: []v1alpha1.GuardedResources{resources("a.org", "*")},
			want: []string{"dbs.b.org", "secrets"}},
		"Nothing": {reason: "no policy", want: []string{"*.a.org", "dbs.b.org", "secrets"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, set := compiled(t, tc.wanted...)
			var got []string
			for _, r := range dropped(configured(live), set.Scopes()) {
				got = append(got, r.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestLeft: what is guarded still keeps nothing else.
func TestLeft(t *testing.T) {
	_, set := compiled(t, resources("a.org", "dbs"))
	offers := []offer{}
	for _, r := range []string{"dbs", "caches"} {
		offers = append(offers, offer{schema.GroupVersionResource{Group: "a.org", Version: "v1", Resource: r}, true})
	}
	got := left(offers, schema.GroupResource{Group: "a.org", Resource: "*"}, set.Scopes())
	if len(got) != 1 || got[0].Resource != "caches" {
		t.Errorf("want the caches, got %v", got)
	}
	if got := left(offers, schema.GroupResource{Group: "b.org", Resource: "*"}, nil); len(got) != 0 {
		t.Errorf("want nothing of another group, got %v", got)
	}
}

func TestCount(t *testing.T) {
	star := resources("a.org", "*")
	star.Excluded = []string{"caches"}
	k, set := compiled(t, star, resources("b.org", "dbs", "nothings"), resources("c.org", "*"))
	offers := []offer{}
	for _, r := range []string{"a.org/apps", "a.org/dbs", "a.org/caches", "b.org/dbs", "b.org/others", "d.org/apps"} {
		gr := schema.ParseGroupResource(r[6:] + "." + r[:5])
		offers = append(offers, offer{gr.WithVersion("v1"), gr.Resource == "dbs"})
	}
	k.Status.Unknown = []string{"stale"}
	count(k, set, offers)
	if k.Status.Resources != 3 || k.Status.ManagedResources != 2 {
		t.Errorf("want 3 resources, 2 managed, got %d and %d", k.Status.Resources, k.Status.ManagedResources)
	}
	if want := []string{"nothings.b.org", "*.c.org"}; !slices.Equal(k.Status.Unknown, want) {
		t.Errorf("want %v unknown, got %v", want, k.Status.Unknown)
	}
}

func TestConditions(t *testing.T) {
	c := &Controller{Options: Options{}}
	cases := map[string]struct {
		fault      error
		out        outcome
		ready      bool
		configured bool
		reason     string
	}{
		"Valid":         {out: outcome{configured: true}, ready: true, configured: true, reason: "Understood"},
		"NotUnderstood": {fault: errors.New("no resources"), out: outcome{configured: true}, reason: "NotUnderstood"},
		"NotWritten":    {out: outcome{failed: errors.New("no"), configured: true}, reason: "NotWritten"},
		"NoCertificate": {reason: "NoCertificate"},
		"FaultFirst":    {fault: errors.New("no resources"), out: outcome{failed: errors.New("no")}, reason: "NotUnderstood"},
		"BeingRemoved":  {out: outcome{configured: true, removing: true}, configured: true, reason: "BeingRemoved"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			k := &v1alpha1.Kausality{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
			c.conditions(k, tc.fault, tc.out)
			again := k.DeepCopy()
			c.conditions(again, tc.fault, tc.out)
			if diff := cmp.Diff(k, again); diff != "" {
				t.Errorf("the same outcome changes the conditions: %s", diff)
			}
			r := meta.FindStatusCondition(k.Status.Conditions, v1alpha1.KausalityReady)
			if r == nil || (r.Status == metav1.ConditionTrue) != tc.ready || r.Reason != tc.reason || r.ObservedGeneration != 3 || r.Message == "" {
				t.Errorf("got %+v", r)
			}
			if meta.IsStatusConditionTrue(k.Status.Conditions, v1alpha1.KausalityWebhookConfigured) != tc.configured {
				t.Errorf("got %+v", k.Status.Conditions)
			}
		})
	}
}

// TestNoteDropped: how long ago a resource left the policies counts from when that
// was first observed, and again from the start if it was guarded in between.
func TestNoteDropped(t *testing.T) {
	a, b := schema.ParseGroupResource("dbs.a.org"), schema.ParseGroupResource("*.b.org")
	now := time.Date(2026, 1, 5, 9, 30, 0, 0, time.UTC)
	c := &Controller{Now: func() time.Time { return now }}
	var got []map[schema.GroupResource]time.Duration
	start := now
	for _, all := range [][]schema.GroupResource{{a}, {a, b}, {b}, {a, b}, nil} {
		c.noteDropped(all)
		since := map[schema.GroupResource]time.Duration{}
		for r, at := range c.droppedAt {
			since[r] = at.Sub(start)
		}
		got = append(got, since)
		now = now.Add(time.Second)
	}
	want := []map[schema.GroupResource]time.Duration{{a: 0}, {a: 0, b: time.Second}, {b: time.Second}, {a: 3 * time.Second, b: time.Second}, {}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}
