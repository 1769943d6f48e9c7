package gate

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/gate/systems"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/policies"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// leader of a cluster, whose controllers have not started.
func leader(of *cluster.Cluster, r *reporter) *Controller {
	r.log = logr.Discard()
	c, err := newController(&core{cluster: of, options: Options{Deadline: time.Hour}, scope: &scope{cluster: of, queue: newQueue()}, reporter: r,
		installs: newTurns(), log: logr.Discard()})
	if err != nil {
		panic(err)
	}
	c.scope.leading.Store(true)
	return c
}

// emitted are the events that f makes, as TYPE REASON MESSAGE.
func emitted(f func(*Controller)) []string {
	r := events.NewFakeRecorder(10)
	of, err := cluster.New(&rest.Config{Host: "127.0.0.1:1"}) // nothing is read
	if err != nil {
		panic(err)
	}
	f(leader(of, &reporter{events: r}))
	close(r.Events)
	var out []string
	for e := range r.Events {
		out = append(out, e)
	}
	return out
}

func gated(g v1alpha1.Gate) *states.Object {
	return objectWith(map[string]string{v1alpha1.AnnotationKeyGate: mask.FormatGate(g)})
}

// TestAnnounce: each transition has one event, with its reason and what was opened.
func TestAnnounce(t *testing.T) {
	gate := func(reason string, verbs ...v1alpha1.Verb) v1alpha1.Gate {
		return v1alpha1.Gate{Reason: reason, Verbs: verbs, Digest: "id1", At: metav1.Now()}
	}
	cases := map[string]struct {
		d    gating.Decision
		want string
	}{
		"Install": {
			d:    gating.Decision{Action: gating.ActionInstall, Gate: gate(v1alpha1.GateReasonInstalled)},
			want: "Normal GateInstalled The gate is closed",
		},
		"Open": {
			d:    gating.Decision{Action: gating.ActionOpen, Gate: gate(v1alpha1.GateReasonApproved, v1alpha1.VerbUpdate)},
			want: "Normal GateOpened The gate is open for [Update], by approval (difference id1)",
		},
		"Narrow": {
			d:    gating.Decision{Action: gating.ActionOpen, Gate: gate(v1alpha1.GateReasonConfirmed, v1alpha1.VerbDelete)},
			want: "Normal GateNarrowed The gate is open only for [Delete] now (Confirmed)",
		},
		"Confirm": {
			d:    gating.Decision{Action: gating.ActionClose, Gate: gate(v1alpha1.GateReasonConfirmed)},
			want: "Normal GateClosed The gate is closed (Confirmed)",
		},
		"Expire": {
			d:    gating.Decision{Action: gating.ActionClose, Gate: gate(v1alpha1.GateReasonExpired)},
			want: "Warning GateClosed The gate is closed (ExpiredUnconfirmed)",
		},
		"Restored": {
			d:    gating.Decision{Action: gating.ActionRestore},
			want: "Normal GateRemoved The author's managementPolicies",
		},
		"Refused": {
			d:    gating.Decision{Action: gating.ActionClose, Gate: gate(v1alpha1.GateReasonRefused), Policies: []string{"Observe"}},
			want: "Normal GateAdjusted The provider's runtime does not support",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := emitted(func(c *Controller) { c.reporter.announce(objectWith(nil), gating.Managed{}, tc.d) })
			if len(got) != 1 || !strings.HasPrefix(got[0], tc.want) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestAdmitted: what the webhook did in a request is one event, when it is first seen.
func TestAdmitted(t *testing.T) {
	changed := v1alpha1.Gate{
		State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}, Paths: []string{"spec.forProvider.size"}, Reason: v1alpha1.GateReasonChanged,
	}
	named := changed // the provider has named what it creates
	named.External = &v1alpha1.GateExternal{Name: "db-1"}
	held := v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonPending}
	approved := v1alpha1.Gate{State: v1alpha1.GateOpen, Reason: v1alpha1.GateReasonApproved}
	for name, tc := range map[string]struct {
		old, new *states.Object
		want     string
	}{
		"Changed":  {old: gated(held), new: gated(changed), want: "Normal GateOpened The gate is open for [Update], by an accepted change of spec.forProvider.size"},
		"Held":     {old: gated(changed), new: gated(held), want: "Warning GateHeld"},
		"Paused":   {old: gated(changed), new: gated(v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonPaused}), want: "Normal GateHeld"},
		"Created":  {old: nil, new: gated(v1alpha1.Gate{State: v1alpha1.GateOpen, Reason: v1alpha1.GateReasonCreated}), want: "Normal GateOpened"},
		"Closed":   {old: nil, new: gated(v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonCreated}), want: ""},
		"Ours":     {old: gated(held), new: gated(approved), want: ""},
		"Same":     {old: gated(changed), new: gated(changed), want: ""},
		"Named":    {old: gated(changed), new: gated(named), want: ""},
		"Gone":     {old: gated(changed), new: nil, want: ""},
		"Ungated":  {old: gated(changed), new: objectWith(nil), want: ""},
		"Deleting": {old: gated(held), new: &states.Object{State: &parent.State{DeletedAt: &time.Time{}, Annotations: gated(changed).Annotations}}, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(emitted(func(c *Controller) { c.admitted(tc.old, tc.new) }), "\n")
			if !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestAdmittedDeadline: the event of an opening names the deadline of the policy that covers the object, as the one of the gate's own does (KR-08-09).
func TestAdmittedDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kausality.io/v1alpha1", "kind": "Kausality", "metadata": map[string]any{"name": "short", "uid": "1"},
			"spec": map[string]any{"gate": map[string]any{"deadline": "5m"},
				"resources": []any{map[string]any{"apiGroups": []any{"example.org"}, "resources": []any{"*"}}}},
		}}
		kinds := map[schema.GroupVersionResource]string{v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceKausalities): "KausalityList"}
		policies, err := policies.New(fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, policy))
		require.NoError(t, err)
		go policies.Run(t.Context())
		synctest.Wait()
		require.Len(t, policies.Set().Scopes(), 1)
		db := gated(v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{v1alpha1.VerbCreate}, Reason: v1alpha1.GateReasonCreated})
		db.State.GroupVersionKind = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Database"}
		got := emitted(func(c *Controller) { c.cluster.Policies = policies; c.admitted(nil, db) })
		require.Len(t, got, 1)
		require.Contains(t, got[0], "at the latest in 5m0s")
	})
}

// TestOrphaned: an MR whose external resource stays has an event with the external
// name and the reason (KR-08-11); one that is deleted with it, or waits, has none.
func TestOrphaned(t *testing.T) {
	mr := func(s parent.State) *states.Object { return &states.Object{State: &s, ExternalName: "db-1"} }
	key := v1alpha1.AnnotationKeyManagementPolicies
	for name, tc := range map[string]struct {
		mr   *states.Object
		want string
	}{
		"Annotated": {
			mr: mr(parent.State{
				ManagementPolicies: []string{"Observe"}, Annotations: map[string]string{key: `["*"]`, v1alpha1.AnnotationKeyDeletion: v1alpha1.DeletionOrphan},
			}),
			want: `Warning ExternalOrphaned External resource "db-1" was orphaned: annotation kausality.io/deletion requests it.`,
		},
		"Author": {
			mr:   mr(parent.State{ManagementPolicies: []string{"Observe"}}),
			want: `Warning ExternalOrphaned External resource "db-1" was orphaned: the managementPolicies of its author have no Delete.`,
		},
		"Legacy": {
			mr:   mr(parent.State{ManagementPolicies: []string{"*"}, DeletionPolicy: "Orphan"}),
			want: `Warning ExternalOrphaned External resource "db-1" was orphaned: its deletionPolicy is Orphan.`,
		},
		"Unguarded": {
			mr:   mr(parent.State{ManagementPolicies: []string{"Observe"}, Annotations: map[string]string{key: `["*"]`}}),
			want: `Warning ExternalOrphaned External resource "db-1" was orphaned: the managed resource was deleted while Kausality was not guarding it.`,
		},
		"Deleted":  {mr: mr(parent.State{ManagementPolicies: []string{"Observe", "Delete"}})},
		"Starred":  {mr: mr(parent.State{ManagementPolicies: []string{"*"}})},
		"Waits":    {mr: mr(parent.State{ManagementPolicies: []string{}})},
		"Explicit": {mr: mr(parent.State{ManagementPolicies: []string{"Observe", "Delete"}, DeletionPolicy: "Orphan"})},
	} {
		t.Run(name, func(t *testing.T) {
			for what, got := range map[string]string{
				"gone at once": strings.Join(emitted(func(c *Controller) { c.reporter.orphaned(tc.mr, nil) }), "\n"),
				"terminating": strings.Join(emitted(func(c *Controller) {
					now := *tc.mr.State
					now.DeletedAt = &time.Time{}
					c.reporter.orphaned(tc.mr, &states.Object{State: &now, ExternalName: "db-1"})
				}), "\n"),
			} {
				if !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
					t.Errorf("%s: got %q", what, got)
				}
			}
			if got := emitted(func(c *Controller) { c.reporter.orphaned(tc.mr, tc.mr) }); len(got) > 0 {
				t.Errorf("not deleted: got %q", got)
			}
		})
	}
}

// TestAnnounceForeign: a kind whose gate does not close is reported once, and is not
// gated from then on.
func TestAnnounceForeign(t *testing.T) {
	o := objectWith(nil)
	o.GroupVersionKind = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"}
	install := gating.Decision{Action: gating.ActionInstall, Gate: v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonInstalled}}
	cases := map[string]struct {
		d          gating.Decision
		now        external.State
		want       string
		ungateable bool
	}{
		"Install": {d: install, now: external.StateClosed, want: "Normal GateInstalled The gate is closed from now on: changes by Argo CD"},
		"Pruned": {
			d: install, now: external.StateOpen, ungateable: true,
			want: "Warning GateUnfit Cannot gate this kind: the installed CRD of Argo CD prunes spec.syncPolicy.automated.enabled. Its objects are not protected.",
		},
		"Open": {
			d: gating.Decision{Action: gating.ActionOpen, Gate: v1alpha1.Gate{Verbs: []v1alpha1.Verb{verb.Sync},
				Reason: v1alpha1.GateReasonApproved, Digest: "id1"}},
			now:  external.StateOpen,
			want: `Normal GateOpened The gate is open for [sync] (Approved, difference "id1"); it closes when Argo CD is done`,
		},
		"Failed": {
			d:   gating.Decision{Action: gating.ActionClose, Gate: v1alpha1.Gate{Reason: external.OverFailed}},
			now: external.StateClosed, want: "Warning GateClosed",
		},
		"Restore": {d: gating.Decision{Action: gating.ActionRestore}, now: external.StateOpen, want: "Normal GateRemoved"},
		"Nothing": {d: gating.Decision{Action: gating.ActionClose, Gate: v1alpha1.Gate{Reason: v1alpha1.GateReasonNothing}}, now: external.StateClosed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(emitted(func(c *Controller) {
				c.foreign.announce(o, systems.ArgoCD{}, gating.Managed{}, tc.d, tc.now)
				if c.foreign.isUngateable(o.GroupVersionKind) != tc.ungateable {
					t.Errorf("ungateable: %v", !tc.ungateable)
				}
			}), "\n")
			if !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
