package external

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// argo plays Argo CD's application controller for one Application: it compares,
// syncs by itself where the policy is automated, and carries operations out,
// after autoSync and setOperationState of v3.3.
type argo struct {
	*actor
	// revision of the source and of what is live; stale is a resource that is
	// no longer in the source; fails makes syncs fail. Under mu.
	revision, live string
	stale, fails   bool
}

func newArgo(t *testing.T, name string) *argo {
	name = namespace(t, name)
	a := &argo{actor: newActor(t, applications, name, name, "system:serviceaccount:argocd:argocd-application-controller"), revision: "1111"}
	a.next = a.step
	_, err := a.user.Create(t.Context(), object("argoproj.io/v1alpha1", "Application", name, name, map[string]any{
		"project": "default", "destination": map[string]any{"server": "https://kubernetes.default.svc", "namespace": "shop"},
		"source":     map[string]any{"repoURL": "https://git.example.org/shop.git", "path": "deploy", "targetRevision": "main"},
		"syncPolicy": map[string]any{"automated": map[string]any{"prune": true}, "syncOptions": []any{"CreateNamespace=true"}},
	}), metav1.CreateOptions{FieldManager: "kubectl"})
	require.NoError(t, err)
	a.start()
	return a
}

// push a revision to the source, which takes a resource out of it or not.
func (a *argo) push(revision string, stale, fails bool) {
	a.mu.Lock()
	a.revision, a.stale, a.fails = revision, stale, fails
	a.mu.Unlock()
	a.poke()
}

func (a *argo) step(o *unstructured.Unstructured) *step {
	a.mu.Lock()
	defer a.mu.Unlock()
	if op, found, _ := unstructured.NestedMap(o.Object, "operation"); found && len(op) > 0 {
		return a.carryOut(o, op)
	}
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	status := "Synced"
	if a.live != a.revision {
		status = "OutOfSync"
	}
	have, _, _ := unstructured.NestedString(o.Object, "status", "sync", "status")
	revision, _, _ := unstructured.NestedString(o.Object, "status", "sync", "revision")
	if have != status || revision != a.revision {
		resources := []any{map[string]any{"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop", "name": "web", "status": status}}
		if a.stale && status == "OutOfSync" {
			resources = append(resources, map[string]any{"version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "old",
				"status": status, "requiresPruning": true})
		}
		return &step{patch: map[string]any{"status": map[string]any{"resources": resources,
			"sync": map[string]any{"status": status, "revision": a.revision, "comparedTo": map[string]any{"source": spec["source"],
				"destination": spec["destination"]}}}}}
	}
	automated, found, _ := unstructured.NestedMap(o.Object, "spec", "syncPolicy", "automated")
	attempted, _, _ := unstructured.NestedString(o.Object, "status", "operationState", "syncResult", "revision")
	if !found || automated["enabled"] == false || status != "OutOfSync" || attempted == a.revision {
		return nil
	}
	return &step{patch: map[string]any{"operation": map[string]any{"initiatedBy": map[string]any{"automated": true}, "retry": map[string]any{"limit": int64(5)},
		"sync": map[string]any{"revision": a.revision, "prune": automated["prune"]}}}}
}

// carryOut an operation, at once.
func (a *argo) carryOut(o *unstructured.Unstructured, op map[string]any) *step {
	sync, _ := op["sync"].(map[string]any)
	revision, _ := sync["revision"].(string)
	source, _, _ := unstructured.NestedMap(o.Object, "spec", "source")
	at := time.Now().UTC().Format(time.RFC3339)
	phase, done := "Failed", func() {}
	if !a.fails {
		what := revision
		if sync["prune"] == true {
			what += " prune"
		}
		phase, done = "Succeeded", func() {
			a.mu.Lock()
			a.live = revision
			a.mu.Unlock()
			a.did(what)
		}
	}
	return &step{done: done, patch: map[string]any{"operation": nil, "status": map[string]any{"operationState": map[string]any{
		"operation": op, "phase": phase, "startedAt": at, "finishedAt": at, "message": "set by the test",
		"syncResult": map[string]any{"revision": revision, "source": source}}}}}
}

func enabled(want any) func(*unstructured.Unstructured) error {
	return holds(want, "spec", "syncPolicy", "automated", "enabled")
}

// TestArgoCDApproval: a new commit waits for its approval, which begins one sync to exactly that
// revision; what it prunes is part of what is approved (KR-08-42).
func TestArgoCDApproval(t *testing.T) {
	t.Parallel()
	a := newArgo(t, "argo-approval")
	installed := a.await("the gate to be installed", both(gate(v1alpha1.GateClosed, "Installed"), enabled(false), holds(true, "spec",
		"syncPolicy", "automated", "prune")))
	if got := installed.GetAnnotations()[v1alpha1.AnnotationKeyExternalAuthor]; got != "null" {
		t.Errorf("its author's value is remembered as %s", got)
	}
	before := []string{"1111 prune"}
	if got := a.all(); !slices.Equal(got, before) {
		t.Fatalf("before there was a gate: %v", got)
	}

	a.push("2222", false, false)
	id := a.drift()
	if got := a.all(); !slices.Equal(got, before) {
		t.Fatalf("synced while the gate is closed: %v", got)
	}
	a.patch(`{"metadata":{"annotations":{"kausality.io/approve-` + id + `":"once"}}}`)
	closed := a.await("the sync and the gate closed", both(gate(v1alpha1.GateClosed, "Confirmed"), enabled(false), without("kausality.io/approve-"+id)))
	if got := a.all(); !slices.Equal(got, append(before, "2222")) {
		t.Fatalf("the approval began another sync: %v", got)
	}
	a.hasInitiator(closed)
	a.awaitResolved(id)

	a.push("3333", true, false)
	next := a.drift(id)
	a.patch(`{"metadata":{"annotations":{"kausality.io/approvals":"[{\"kind\":\"Application\",\"name\":\"` + a.name +
		`\",\"relation\":\"External\",\"verbs\":[\"sync\",\"delete\"]}]"}}}`)
	a.await("the sync that prunes", holds("3333", "status", "operationState", "syncResult", "revision"))
	a.awaitResolved(next)
	if got := a.all(); !slices.Equal(got[2:], []string{"3333 prune"}) {
		t.Errorf("synced: %v", got)
	}
}

// hasInitiator: the operation of the last sync names whose change of the
// Application it carries out: Argo CD's own, before there was a gate.
func (a *argo) hasInitiator(o *unstructured.Unstructured) {
	a.t.Helper()
	info, _, _ := unstructured.NestedSlice(o.Object, "status", "operationState", "operation", "info")
	values := map[string]string{}
	for _, e := range info {
		m, _ := e.(map[string]any)
		name, _ := m["name"].(string)
		values[name], _ = m["value"].(string)
	}
	if !strings.HasSuffix(values["KAUSALITY_INITIATOR"], ":argocd-application-controller") || len(values["KAUSALITY_TRACE_ID"]) != 16 ||
		!strings.HasPrefix(values["KAUSALITY_ORIGIN"], "Application.argoproj.io/"+a.name+"/"+a.name) {
		a.t.Errorf("the operation has %v", values)
	}
}

// TestArgoCDFails: after a sync that fails, the gate closes and the difference
// remains.
func TestArgoCDFails(t *testing.T) {
	t.Parallel()
	a := newArgo(t, "argo-fails")
	a.await("the gate to be installed", both(gate(v1alpha1.GateClosed, "Installed"), enabled(false)))
	a.push("2222", false, true)
	id := a.drift()
	a.patch(`{"metadata":{"annotations":{"kausality.io/approve-` + id + `":"once"}}}`)
	a.await("the gate closed after the failure", both(gate(v1alpha1.GateClosed, "Failed"), holds("Failed", "status", "operationState",
		"phase"), without("kausality.io/approve-"+id)))
	if got := a.all(); len(got) != 1 {
		t.Errorf("synced: %v", got)
	}
}

// TestArgoCDAuthor: when a user enables automated syncs, the gate disables them
// again. Log mode restores the author's value verbatim.
func TestArgoCDAuthor(t *testing.T) {
	t.Parallel()
	a := newArgo(t, "argo-author")
	a.await("the gate to be installed", both(gate(v1alpha1.GateClosed, "Installed"), enabled(false)))
	a.patch(`{"spec":{"syncPolicy":{"automated":{"enabled":true}}}}`)
	a.await("it to be masked again", func(o *unstructured.Unstructured) error {
		if err := enabled(false)(o); err != nil {
			return err
		}
		if got := o.GetAnnotations()[v1alpha1.AnnotationKeyExternalAuthor]; got != "true" {
			t.Logf("remembered: %s", got)
		}
		return nil
	})
	a.patch(`{"metadata":{"annotations":{"kausality.io/mode":"log"}}}`)
	a.await("its author's value to be back", both(enabled(true), without(v1alpha1.AnnotationKeyExternalAuthor, v1alpha1.AnnotationKeyGate)))
	a.push("2222", false, false)
	a.await("Argo CD to sync by itself", holds("2222", "status", "operationState", "syncResult", "revision"))
}
