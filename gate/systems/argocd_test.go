package systems

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const applicationOut = `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop, namespace: argocd, generation: 90}
spec:
  project: default
  destination: {server: https://kubernetes.default.svc, namespace: shop}
  source: {repoURL: https://git.example.org/shop.git, path: deploy, targetRevision: main}
  syncPolicy: {automated: {prune: false}, syncOptions: [CreateNamespace=true], retry: {limit: 2}}
status:
  sync:
    status: OutOfSync
    revision: "2222"
    comparedTo:
      destination: {server: https://kubernetes.default.svc, namespace: shop}
      source: {repoURL: https://git.example.org/shop.git, path: deploy, targetRevision: main}
  operationState:
    phase: Succeeded
    startedAt: "2026-01-02T10:00:00Z"
    operation: {sync: {revision: "1111"}}
    syncResult: {revision: "1111", source: {repoURL: https://git.example.org/shop.git, path: deploy, targetRevision: main}}
  resources:
  - {group: apps, version: v1, kind: Deployment, namespace: shop, name: web, status: OutOfSync}
  - {version: v1, kind: Service, namespace: shop, name: web, status: Synced}
  - {version: v1, kind: ConfigMap, namespace: shop, name: old, status: OutOfSync, requiresPruning: true}
`

// TestArgoCD covers KR-08-42.
func TestArgoCD(t *testing.T) {
	r := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(applicationOut) }
	const meta, author = "{name: shop, namespace: argocd, generation: 90}", "annotations: {kausality.io/external-author: 'null'"
	closed := r(meta, "{name: shop, namespace: argocd, generation: 90, "+author+"}}", "prune: false", "prune: false, enabled: false")
	gate := `, kausality.io/gate: '{"state":"open","verbs":["sync"],"generation":90,"at":"2026-01-02T12:00:00Z","digest":"d"}'}}`
	open := strings.Replace(closed, author+"}}", author+gate, 1)
	const ours = `info: [{name: kausality.io/opening, value: "d@20260102120000"}], `
	state := func(phase string) string {
		return strings.NewReplacer("phase: Succeeded", "phase: "+phase, `operation: {sync`, `operation: {`+ours+`sync`).Replace(open)
	}
	sync, prune := []v1alpha1.Verb{"sync"}, []v1alpha1.Verb{"sync", "delete"}
	cases := map[string]struct {
		reason, object string
		state          external.State
		verbs          []v1alpha1.Verb
		paths          []string
		foreign        bool
		busy           bool
		current        bool
		unconfirmed    string
		over           string
	}{
		"Automated": {reason: "Argo CD syncs by itself", object: applicationOut, state: external.StateOpen, verbs: sync,
			paths: []string{"resources[apps/Deployment/shop/web]", "status.sync.revision"}, foreign: true, current: true},
		"Manual":   {reason: "its author syncs by hand", object: r("automated: {prune: false}, ", ""), state: external.StateFree},
		"Disabled": {reason: "or by the field", object: r("prune: false", "prune: false, enabled: false"), state: external.StateFree},
		"Closed": {reason: "a commit waits", object: closed, state: external.StateClosed, verbs: sync,
			paths: []string{"resources[apps/Deployment/shop/web]", "status.sync.revision"}, foreign: true, current: true},
		"Prune": {reason: "pruning is deleting", object: strings.Replace(closed, "prune: false", "prune: true", 1),
			state: external.StateClosed, verbs: prune,
			paths: []string{"resources[ConfigMap/shop/old]", "resources[apps/Deployment/shop/web]", "status.sync.revision"}, foreign: true,
			current: true},
		"OnlyPrune": {reason: "what its author does not prune is no difference",
			object: strings.Replace(closed, "name: web, status: OutOfSync", "name: web, status: Synced", 1), state: external.StateClosed,
			current: true},
		"Drift": {reason: "the cluster changed, and its author does not heal",
			object: strings.Replace(closed, `revision: "2222"`, `revision: "1111"`, 1), state: external.StateClosed, current: true},
		"SelfHeal": {reason: "and one who does",
			object: strings.NewReplacer(`revision: "2222"`, `revision: "1111"`, "prune: false", "prune: false, selfHeal: true").Replace(closed),
			state:  external.StateClosed, verbs: sync, paths: []string{"resources[apps/Deployment/shop/web]"}, foreign: true, current: true},
		"Changed": {reason: "the last sync was of another source: the change is the object's own",
			object: strings.Replace(closed, `syncResult: {revision: "1111", source: {repoURL: https://git.example.org/shop.git, path: deploy`,
				`syncResult: {revision: "1111", source: {repoURL: https://git.example.org/shop.git, path: before`, 1),
			state: external.StateClosed, verbs: sync, paths: []string{"resources[apps/Deployment/shop/web]", "status.sync.revision"}, current: true},
		"Outdated": {reason: "what was compared is another source",
			object: strings.Replace(closed, "      source: {repoURL: https://git.example.org/shop.git, path: deploy",
				"      source: {repoURL: https://git.example.org/shop.git, path: before", 1),
			state: external.StateClosed, verbs: sync, paths: []string{"resources[apps/Deployment/shop/web]", "status.sync.revision"}, foreign: true},
		"Synced": {reason: "nothing to do",
			object: strings.Replace(closed, "status: OutOfSync\n    revision", "status: Synced\n    revision", 1), state: external.StateClosed,
			current: true},
		"Busy": {reason: "a person syncs",
			object: strings.Replace(closed, "status:\n  sync:", "operation: {sync: {}}\nstatus:\n  sync:", 1), state: external.StateClosed,
			verbs: sync, paths: []string{"resources[apps/Deployment/shop/web]", "status.sync.revision"}, foreign: true, busy: true, current: true},
		"Waits": {reason: "the operation was not begun",
			object: strings.Replace(open, "status:\n  sync:", "operation: {"+ours+"sync: {}}\nstatus:\n  sync:", 1), state: external.StateClosed,
			verbs: sync, paths: []string{"resources[apps/Deployment/shop/web]", "status.sync.revision"}, foreign: true, busy: true, current: true,
			unconfirmed: "not done yet"},
		"Running": {reason: "or is held by a window",
			object: state("Running\n    message: Sync operation blocked by sync window"), state: external.StateClosed, verbs: sync,
			paths: []string{"resources[apps/Deployment/shop/web]", "status.sync.revision"}, foreign: true, busy: true, current: true,
			unconfirmed: "blocked by sync window"},
		"Succeeded": {reason: "it is done", object: state("Succeeded"), state: external.StateClosed, verbs: sync,
			paths: []string{"resources[apps/Deployment/shop/web]", "status.sync.revision"}, foreign: true, current: true},
		"Failed": {reason: "it is over", object: state("Failed"), state: external.StateClosed, verbs: sync,
			paths: []string{"resources[apps/Deployment/shop/web]", "status.sync.revision"}, foreign: true, current: true, over: external.OverFailed},
		"Error": {reason: "so it is", object: state("Error"), state: external.StateClosed, verbs: sync,
			paths: []string{"resources[apps/Deployment/shop/web]", "status.sync.revision"}, foreign: true, current: true, over: external.OverFailed},
		"TakenBack": {reason: "a user removed the operation, or began another", object: open, state: external.StateClosed,
			verbs: sync, paths: []string{"resources[apps/Deployment/shop/web]", "status.sync.revision"}, foreign: true, current: true,
			over: external.OverSuperseded},
		"NeverSynced": {reason: "no sync yet", object: applicationOut[:strings.Index(applicationOut, "status:\n")],
			state: external.StateOpen},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := ArgoCD{}.Look(parse(t, tc.object))
			var paths []string
			for _, d := range v.Difference {
				paths = append(paths, d.Path)
			}
			if v.State != tc.state || (v.State == external.StateFree) != (v.Why != "") {
				t.Errorf("%s: %+v", tc.reason, v)
			}
			if diff := cmp.Diff(tc.verbs, v.Verbs); diff != "" {
				t.Errorf("%s: verbs: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.paths, paths); diff != "" {
				t.Errorf("%s: difference: -want, +got:\n%s", tc.reason, diff)
			}
			if v.Foreign != tc.foreign || v.Current != tc.current || (v.Busy != "") != tc.busy || v.Over != tc.over ||
				(v.Unconfirmed == "") != (tc.unconfirmed == "") || !strings.Contains(v.Unconfirmed, tc.unconfirmed) {
				t.Errorf("%s: %+v", tc.reason, v)
			}
		})
	}
}

// The operation is the one that Argo CD would begin, restricted to what was
// approved, and identifies who requested it.
func TestArgoCDOperation(t *testing.T) {
	o := parse(t, strings.Replace(applicationOut, "prune: false", "prune: true", 1))
	for _, tc := range []struct {
		verbs []v1alpha1.Verb
		prune bool
	}{{verbs: []v1alpha1.Verb{"sync"}}, {verbs: []v1alpha1.Verb{"sync", "delete"}, prune: true}} {
		edit := ArgoCD{}.Open(o, v1alpha1.Gate{Verbs: tc.verbs, Digest: "d"}, byHans)
		op := edit["operation"].(map[string]any)
		want := map[string]any{"revision": "2222", "prune": tc.prune, "syncOptions": []any{"CreateNamespace=true"},
			"source": map[string]any{"repoURL": "https://git.example.org/shop.git", "path": "deploy", "targetRevision": "main"}}
		if diff := cmp.Diff(want, op["sync"]); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
		if diff := cmp.Diff(map[string]any{"limit": int64(2)}, op["retry"]); diff != "" {
			t.Errorf("its author's retry: -want, +got:\n%s", diff)
		}
		if diff := cmp.Diff(map[string]any{"automated": true, "username": "kausality"}, op["initiatedBy"]); diff != "" {
			t.Errorf("sync windows for automated syncs hold: -want, +got:\n%s", diff)
		}
		info := op["info"].([]any)
		if len(info) != 4 || info[2].(map[string]any)["value"] != "hans" {
			t.Errorf("info %v", info)
		}
		if len(edit) != 1 {
			t.Errorf("the policy stays as it is: %v", edit)
		}
	}
}
