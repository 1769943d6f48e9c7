package providerhttp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

const (
	group = "http.crossplane.io"
	// poll is how often the provider observes each resource.
	poll = time.Second
)

var (
	requests   = schema.GroupVersionResource{Group: group, Version: "v1alpha2", Resource: "requests"}
	disposable = schema.GroupVersionResource{Group: group, Version: "v1alpha2", Resource: "disposablerequests"}

	memo = story.Definition{
		Group: "example.org", Version: "v1alpha1", Kind: "XMemo", Plural: "xmemos", Scope: "Cluster", Spec: "{text: {type: string}}",
	}
	memos = memo.Resource()

	compositions = schema.GroupVersionResource{Group: "apiextensions.crossplane.io", Version: "v1", Resource: "compositions"}
)

// authors is the policy that the chart's policy controller creates.
const authors = `
apiVersion: kausality.io/v1alpha1
kind: Kausality
metadata: {name: authors}
spec: {traceOnly: true, resources: [{apiGroups: [apiextensions.crossplane.io], resources: [compositions]}]}
`

const providerConfig = `
apiVersion: http.crossplane.io/v1alpha1
kind: ProviderConfig
metadata: {name: default}
spec: {credentials: {source: None}}
`

// player of the tests, with what they run on.
type player struct {
	*testing.T
	ctx         context.Context //nolint:containedctx // Lives as long as the test it belongs to.
	e           *story.Env
	cloud       *cloud
	admin, hans dynamic.Interface
	plugin      string
}

// TestProviderHTTP runs the real provider-http against an HTTP cloud (KR-07-08, KR-07-09, KR-07-11, KR-07-12, KR-07-13).
func TestProviderHTTP(t *testing.T) {
	p := startPlayer(t)
	t.Run("together", func(t *testing.T) {
		t.Run("Request", func(t *testing.T) { t.Parallel(); p.with(t).direct() })
		t.Run("DisposableRequest", func(t *testing.T) { t.Parallel(); p.with(t).disposable() })
		t.Run("TagsFirst", func(t *testing.T) { t.Parallel(); p.with(t).tagsFirst() })
		t.Run("Composed", func(t *testing.T) { t.Parallel(); p.with(t).composed() })
	})
}

func (p *player) with(t *testing.T) *player {
	q := *p
	q.T = t
	return &q
}

func startPlayer(t *testing.T) *player {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	dir := t.TempDir()
	if base := os.Getenv("KAUSALITY_E2E_DIR"); base != "" {
		dir = base + "/" + t.Name()
	}
	e, err := story.Start(ctx, story.Options{
		Dir: dir, Out: os.Stdout, Kausality: os.Getenv("KAUSALITY_BINARY"), Webhook: true, WithoutObjects: true,
		ProviderArgs: []string{"--tags-first"},
		Resources:    []string{"requests." + group, "disposablerequests." + group, "compositions.apiextensions.crossplane.io"},
	})
	t.Cleanup(e.Stop)
	require.NoError(t, err)
	p := &player{T: t, ctx: ctx, e: e, cloud: startCloud(t)}
	require.NoError(t, p.startProvider())
	require.NoError(t, e.Grant(ctx, story.Hans,
		rbacv1.PolicyRule{APIGroups: []string{group, memo.Group, v1alpha1.Group, story.Databases.Group}, Resources: []string{"*"}, Verbs: []string{"*"}}))
	p.admin, err = dynamic.NewForConfig(e.Config())
	require.NoError(t, err)
	p.hans, err = e.As(story.Hans)
	require.NoError(t, err)
	bins, err := parts.Ensure(ctx, os.Stdout, "", parts.KubectlKausality)
	require.NoError(t, err)
	p.plugin = bins[parts.KubectlKausality]
	return p
}

func (p *player) startProvider() error {
	bins, err := parts.Ensure(p.ctx, os.Stdout, "", parts.ProviderHTTP)
	if err != nil {
		return err
	}
	if err := p.e.InstallCRDs(p.ctx, parts.ProviderHTTP); err != nil {
		return err
	}
	if err := p.e.Apply(p.ctx, []byte(providerConfig)); err != nil {
		return err
	}
	kubeconfig, err := p.e.ServiceAccountKubeconfig(p.ctx, "crossplane-system", "provider-http")
	if err != nil {
		return err
	}
	cmd := exec.Command(bins[parts.ProviderHTTP], "--poll="+poll.String(), "--max-reconcile-rate=50")
	cmd.Args[0] = "provider"
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	_, err = p.e.Serve(p.ctx, "provider-http", cmd)
	return err
}

func (p *player) until(what string, f func() error) {
	p.Helper()
	require.NoError(p, controlplane.Eventually(p.ctx, what, time.Minute, func(context.Context) error { return f() }))
}

// forProvider of a Request that keeps a note with a text.
func (p *player) forProvider(text string) map[string]any {
	const note = "{ text: .payload.body.text }"
	one := `(.payload.baseUrl + "/" + (.response.body.id|tostring))`
	return map[string]any{
		"payload": map[string]any{"baseUrl": p.cloud.URL + "/notes", "body": fmt.Sprintf(`{"text": %q}`, text)},
		"mappings": []any{
			map[string]any{"method": "POST", "url": ".payload.baseUrl", "body": note},
			map[string]any{"method": "GET", "url": one},
			map[string]any{"method": "PUT", "url": one, "body": note},
			map[string]any{"method": "DELETE", "url": one},
		},
	}
}

func (p *player) create(r schema.GroupVersionResource, kind, name string, spec map[string]any) {
	p.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": r.GroupVersion().String(), "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": spec}}
	p.until("to create "+name, func() error {
		_, err := p.hans.Resource(r).Create(p.ctx, o, metav1.CreateOptions{FieldManager: "kubectl"})
		return err
	})
}

func (p *player) patch(r schema.GroupVersionResource, name string, patch map[string]any) {
	p.Helper()
	raw, err := json.Marshal(patch)
	require.NoError(p, err)
	_, err = p.hans.Resource(r).Patch(p.ctx, name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "kubectl"})
	require.NoError(p, err)
}

func retext(text string) map[string]any {
	payload := map[string]any{"body": fmt.Sprintf(`{"text": %q}`, text)}
	return map[string]any{"spec": map[string]any{"forProvider": map[string]any{"payload": payload}}}
}

func (p *player) get(r schema.GroupVersionResource, name string) *unstructured.Unstructured {
	p.Helper()
	o, err := p.admin.Resource(r).Get(p.ctx, name, metav1.GetOptions{})
	require.NoError(p, err)
	return o
}

// awaitReady of an object, and that the cloud has its text.
func (p *player) awaitReady(r schema.GroupVersionResource, name string) {
	p.Helper()
	p.until(name+" to be ready", func() error {
		o, err := p.admin.Resource(r).Get(p.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return cmp.Or(controlplane.ConditionTrue(o, "Ready"), controlplane.ConditionTrue(o, "Synced"))
	})
}

func (p *player) awaitText(text string) {
	p.Helper()
	p.until("the cloud to have "+text, func() error {
		if got := p.cloud.texts(); !slices.Contains(got, text) {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
}

// writes to the cloud of which one part is a text, since the n-th.
func (p *player) writes(n int, part string) (out []string) {
	for _, w := range p.cloud.wrote(n) {
		if strings.Contains(w, part) {
			out = append(out, w)
		}
	}
	return out
}

// traced: the object has one hop, of hans's, and nothing of a gate.
func (p *player) traced(r schema.GroupVersionResource, name string) {
	p.Helper()
	o := p.get(r, name)
	hops, err := story.Trace(o)
	require.NoError(p, err)
	require.Len(p, hops, 1, "%s", story.Tree(hops))
	require.Equal(p, story.Hans, hops[0].User)
	require.Equal(p, o.GetGeneration(), hops[0].Generation)
	p.ungated(o)
}

// ungated: there is no field to mask, and so no gate that an annotation could report.
func (p *player) ungated(o *unstructured.Unstructured) {
	p.Helper()
	for _, key := range []string{v1alpha1.AnnotationKeyGate, v1alpha1.AnnotationKeyManagementPolicies} {
		require.NotContains(p, o.GetAnnotations(), key)
	}
	_, found, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "managementPolicies")
	require.NoError(p, err)
	require.False(p, found)
}

// direct: what a user creates is theirs through all writes of the provider, and so is each change. What was
// changed in the cloud is reverted at once, since no gate restricts the provider: coverage and explain show it.
func (p *player) direct() {
	p.create(requests, "Request", "direct", map[string]any{"forProvider": p.forProvider("milk")})
	p.awaitText("milk")
	p.awaitReady(requests, "direct")
	p.traced(requests, "direct")
	p.patch(requests, "direct", retext("bread"))
	p.awaitText("bread")
	p.traced(requests, "direct")
	require.True(p, p.cloud.edit("bread", "butter"))
	p.awaitText("bread")
	p.traced(requests, "direct")
	for _, command := range [][]string{{"coverage", "-A", "-o", "yaml"}, {"explain", "requests." + group, "direct"}} {
		require.Contains(p, p.kausality(command...), "no spec.managementPolicies", "%v", command)
	}
	require.NoError(p, p.hans.Resource(requests).Delete(p.ctx, "direct", metav1.DeleteOptions{}))
	p.awaitDeleted("bread")
}

// awaitDeleted until the cloud has no note with a text.
func (p *player) awaitDeleted(text string) {
	p.Helper()
	p.until("the note to be deleted", func() error {
		if got := p.cloud.texts(); slices.Contains(got, text) {
			return fmt.Errorf("the cloud has %v", got)
		}
		return nil
	})
}

// tagsFirst: the test provider tags a Database before anything else, which does not replace its user.
func (p *player) tagsFirst() {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": story.Databases.GroupVersion().String(), "kind": "Database",
		"metadata": map[string]any{"name": "tagged", "namespace": "default"},
		"spec":     map[string]any{"forProvider": map[string]any{"engine": "postgres", "size": int64(10)}}}}
	o, err := p.hans.Resource(story.Databases).Namespace("default").Create(p.ctx, o, metav1.CreateOptions{FieldManager: "kubectl"})
	require.NoError(p, err)
	p.until("the Database to be ready", func() error {
		if o, err = p.admin.Resource(story.Databases).Namespace("default").Get(p.ctx, "tagged", metav1.GetOptions{}); err != nil {
			return err
		}
		return controlplane.ConditionTrue(o, "Ready")
	})
	tag, _, err := unstructured.NestedString(o.Object, "spec", "forProvider", "tags", "crossplane-name")
	require.NoError(p, err)
	require.Equal(p, "tagged", tag)
	hops, err := story.Trace(o)
	require.NoError(p, err)
	require.Len(p, hops, 1, "%s", story.Tree(hops))
	require.Equal(p, story.Hans, hops[0].User)
}

// disposable: it is its user's, and is not sent again by what a user, Kausality or the provider's own polls write. The
// provider itself repeats one whose status it could not write (its deployAction, v1.0.0), so that the first sending may count twice.
func (p *player) disposable() {
	p.create(disposable, "DisposableRequest", "ping", map[string]any{"deletionPolicy": "Orphan",
		"forProvider": map[string]any{"url": p.cloud.URL + "/pings", "method": "POST", "body": `{"text": "ping"}`}})
	p.awaitReady(disposable, "ping")
	p.traced(disposable, "ping")
	sent := len(p.writes(0, "ping"))
	p.patch(disposable, "ping", map[string]any{"spec": map[string]any{"forProvider": map[string]any{"waitTimeout": "1m"}}})
	p.traced(disposable, "ping")
	wait.Pause(p, 3*poll)
	require.Len(p, p.writes(0, "ping"), sent)
	require.NoError(p, p.hans.Resource(disposable).Delete(p.ctx, "ping", metav1.DeleteOptions{}))
	p.until("it to be gone", func() error { return p.gone(disposable, "ping") })
	require.Len(p, p.writes(0, "ping"), sent)
}

func (p *player) gone(r schema.GroupVersionResource, name string) error {
	o, err := p.admin.Resource(r).Get(p.ctx, name, metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("it exists: %v", o.Object["status"])
	}
	return err
}

// kausality is the output of the plugin for the cluster's administrator.
func (p *player) kausality(args ...string) string {
	p.Helper()
	kubeconfig, err := p.e.Kubeconfig("plugin-"+args[0], "admin", "system:masters")
	require.NoError(p, err)
	out, err := exec.CommandContext(p.ctx, p.plugin, append(args, "--kubeconfig="+filepath.Clean(kubeconfig))...).CombinedOutput()
	require.NoError(p, err, "%s", out)
	return string(out)
}

// composition of a memo: a Request that keeps its text, with a suffix.
func (p *player) composition(suffix string) []byte {
	raw, err := json.Marshal(p.forProvider(""))
	require.NoError(p, err)
	return memo.Composition("xmemos.example.org", fmt.Sprintf(`
      - name: note
        base: {apiVersion: http.crossplane.io/v1alpha2, kind: Request, spec: {forProvider: %s}}
        patches:
        - type: FromCompositeFieldPath
          fromFieldPath: spec.text
          toFieldPath: spec.forProvider.payload.body
          transforms: [{type: string, string: {type: Format, fmt: '{"text": "%%s%s"}'}}]`, raw, suffix), story.StepAutoReady)
}

// composed: the user's intent leads to the cloud, a change of the Composition does not until it is approved.
func (p *player) composed() {
	require.NoError(p, p.e.Apply(p.ctx, []byte(authors)))
	require.NoError(p, p.e.Apply(p.ctx, memo.XRD()))
	p.until("the Composition to be applied", func() error { return p.e.Apply(p.ctx, p.composition("")) })
	p.create(memos, "XMemo", "list", map[string]any{"text": "tea"})
	p.awaitText("tea")
	p.awaitSettled()
	hops := p.composedTrace()
	require.Len(p, hops, 2)
	require.Equal(p, story.Hans, hops[0].User)
	n := len(p.cloud.wrote(0))
	p.patch(memos, "list", map[string]any{"spec": map[string]any{"text": "coffee"}})
	p.awaitText("coffee")
	p.awaitSettled()
	require.Equal(p, 1, len(p.writes(n, "coffee")))

	n = len(p.cloud.wrote(0))
	require.NoError(p, p.e.Apply(p.ctx, p.composition("!")))
	d := p.awaitDrift()
	p.authored(d.Spec.Causes)
	require.Empty(p, p.writes(n, "coffee"), "what no user requested was held")
	approve := map[string]any{v1alpha1.AnnotationPrefix + "approve-" + d.Spec.ID: "once"}
	p.patch(memos, "list", map[string]any{"metadata": map[string]any{"annotations": approve}})
	p.awaitText("coffee!")
	require.Equal(p, 1, len(p.writes(n, "coffee")))
	p.until("the hop to be unrequested", func() error {
		hops := p.composedTrace()
		own := hops[len(hops)-1]
		if !own.Unrequested || own.Passed != v1alpha1.PassedApproval {
			return fmt.Errorf("it is %+v", own)
		}
		p.authored(own.Causes)
		return nil
	})
	require.NoError(p, p.hans.Resource(memos).Delete(p.ctx, "list", metav1.DeleteOptions{}))
	p.until("the XMemo to be gone", func() error { return p.gone(memos, "list") })
	p.awaitDeleted("coffee!")
}

// authored: the first cause is a composition revision by who changed the Composition, which is no claim.
func (p *player) authored(causes []v1alpha1.HopCause) {
	p.Helper()
	hops, err := story.Trace(p.get(compositions, "xmemos.example.org"))
	require.NoError(p, err)
	require.Len(p, hops, 1)
	require.NotEmpty(p, hops[0].User)
	require.NotEmpty(p, causes)
	want := v1alpha1.HopCause{Kind: v1alpha1.CauseComposition, Name: causes[0].Name, Author: hops[0].User}
	require.Equal(p, want, causes[0])
}

// composedRequest of the XMemo.
func (p *player) composedRequest() *unstructured.Unstructured {
	p.Helper()
	list, err := p.admin.Resource(requests).List(p.ctx, metav1.ListOptions{LabelSelector: "crossplane.io/composite=list"})
	require.NoError(p, err)
	require.Len(p, list.Items, 1)
	return &list.Items[0]
}

func (p *player) composedTrace() []v1alpha1.Hop {
	p.Helper()
	hops, err := story.Trace(p.composedRequest())
	require.NoError(p, err)
	return hops
}

// awaitSettled: the XMemo settled at its intent.
func (p *player) awaitSettled() {
	p.Helper()
	p.until("the XMemo to settle", func() error {
		o := p.get(memos, "list")
		hops, err := story.Trace(o)
		if err != nil {
			return err
		}
		if got := o.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration]; got != fmt.Sprint(hops[len(hops)-1].Generation) {
			return fmt.Errorf("settled at %q, trace %s, status %v", got, story.Tree(hops), o.Object["status"])
		}
		return nil
	})
}

// awaitDrift of the composed Request.
func (p *player) awaitDrift() (d v1alpha1.Drift) {
	p.Helper()
	name := p.composedRequest().GetName()
	p.until("a Drift", func() error {
		list, err := p.admin.Resource(story.Drifts).List(p.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, o := range list.Items {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
				return err
			}
			if d.Spec.Child.Name == name {
				return nil
			}
		}
		return fmt.Errorf("there are %d Drifts", len(list.Items))
	})
	return d
}
