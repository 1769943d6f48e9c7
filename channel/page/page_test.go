package page

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/await"
)

// shows checks what a page has, and what it must not have.
func shows(t *testing.T, r response, want ...string) {
	t.Helper()
	assert.Equal(t, http.StatusOK, r.code, r.body)
	for _, w := range want {
		assert.Contains(t, r.body, w)
	}
}

// TestPages covers KR-17-12: what each page shows of a change that waits.
func TestPages(t *testing.T) {
	_, o, _ := newServer(t, held(func(d *v1alpha1.Drift) {
		d.Status.Votes = []v1alpha1.Vote{{User: "anna@example.com", Via: "slack", At: metav1.NewTime(morning.Add(10 * time.Minute))}}
		d.Status.Lacks = "1 of 2 approvals; needs 1 more of group dba"
		d.Spec.Difference = append(d.Spec.Difference, v1alpha1.FieldDifference{Path: "spec.tags", Verb: "Mutate", Old: `{"a":1,"b":2}`, New: `{"a":1,"b":3}`})
	}))
	b := open(t, o)
	first := b.get(b.page.base + "/")
	shows(t, first, "Composition revision shops-7f3", "by alice@example.com", "1 change of 1 object", "for 60m", "needs 1 more of group dba", "hans on prod")
	cause := b.get(b.page.base + "/cause?key=shops-7f3")
	shows(t, cause, "change Database team/orders-db: spec.forProvider.size: 20 → 50", "1 vote", "below Shop team/orders")
	change := b.get(b.change(""))
	shows(t, change, "change Database team/orders-db", "Wanted", "Stored", "In the cloud", "anna@example.com", "needs 1 more of group dba", "ticket: SHOP-1",
		"External resource db-4711", "gate closed", `<mark>  &#34;b&#34;: 3</mark>`, "Approve once", "Reject", "Withdraw", "Snooze", "Freeze")
	assert.NotContains(t, change.body, "Not read", "all of it")
	_, line, _ := strings.Cut(change.body, "Time line")
	shows(t, response{code: http.StatusOK, body: line}, "2026-01-05T09:00:00Z</time> held for the first time",
		"2026-01-05T09:10:00Z</time> approved by anna@example.com by slack")
	tree := change.body[strings.Index(change.body, `class="tree"`):]
	for _, part := range []string{"hans", "Shop team/orders", "Database team/orders-db", "Held: change", "External resource"} {
		n := strings.Index(tree, part)
		require.GreaterOrEqual(t, n, 0, "the tree has %q below the one before", part)
		tree = tree[n:]
	}
	shows(t, b.get(b.page.base+"/object?apiVersion=example.org%2Fv1&kind=Shop&namespace=team&name=orders"), "Shop team/orders", "Database team/orders-db",
		"Freeze", "spec.forProvider.size")
	assert.Equal(t, http.StatusNotFound, b.get(b.page.base+"/cause?key=none").code)
	assert.Equal(t, http.StatusNotFound, b.get(b.page.base+"/change/0000000000000000?namespace=team").code)
	assert.Equal(t, http.StatusNotFound, b.get(b.page.base+"/object?apiVersion=example.org%2Fv1&kind=Shop&namespace=team&name=none").code)
	assert.Equal(t, http.StatusNotFound, b.get(b.page.base+"/nothing").code)
	style := b.get(stylePath)
	shows(t, style, "prefers-color-scheme: dark")
	assert.Contains(t, style.header.Get("Cache-Control"), "immutable")
}

// TestDecided covers KR-17-12: what is frozen, snoozed and rejected is shown with its reason.
func TestDecided(t *testing.T) {
	s, o, _ := newServer(t, held(nil))
	s.Annotate(shopPath, v1alpha1.AnnotationKeyFreeze, `{"user":"alice","message":"incident 4711","at":"2026-01-05T08:00:00Z"}`)
	s.Annotate(shopPath, v1alpha1.AnnotationKeySnooze, `{"expiry":"2026-01-06T08:00:00Z","user":"bert"}`)
	s.Annotate(shopPath, v1alpha1.AnnotationKeyRejections,
		`[{"apiVersion":"cloud.example.org/v1","kind":"Database","name":"orders-db","reason":"not before the audit"}]`)
	b := open(t, o)
	for _, path := range []string{b.page.base + "/", b.change("")} {
		shows(t, b.get(path), "incident 4711", "snoozed until 2026-01-06T08:00:00Z by bert", "not before the audit")
	}
	shows(t, b.get(b.page.base+"/coverage"), "Frozen: 1 of shops.example.org", "incident 4711", "Snoozed: 1 of shops.example.org", "bert")
	object := b.get(b.page.base + "/object?apiVersion=example.org%2Fv1&kind=Shop&namespace=team&name=orders")
	shows(t, object, "Unfreeze", "incident 4711", "not before the audit", "snoozed until")
	assert.NotContains(t, b.get(b.change("")).body, "Approve once", "it is rejected")
}

// TestCoverage covers KR-17-12: what is not protected, read once a minute.
func TestCoverage(t *testing.T) {
	s, o, clock := newServer(t)
	b := open(t, o)
	shows(t, b.get(b.page.base+"/coverage"), "of 2 objects of 2 kinds are protected")
	s.Mu.Lock()
	delete(s.Objects, databasePath)
	s.Mu.Unlock()
	shows(t, b.get(b.page.base+"/coverage"), "of 2 objects")
	clock.Move(2 * time.Minute)
	shows(t, b.get(b.page.base+"/coverage"), "of 1 object of")
	s.Forbidden = func(_, path string) bool { return strings.Contains(path, "mutatingwebhookconfigurations") }
	clock.Move(2 * time.Minute)
	shows(t, b.get(b.page.base+"/coverage"), "What is protected is unknown")
}

// TestNothing covers KR-17-12 and KR-17-16: nothing waits, a cluster without rights, and one Namespace of several.
func TestNothing(t *testing.T) {
	s, o, clock := newServer(t)
	b := open(t, o)
	shows(t, b.get(b.page.base+"/"), "Nothing waits for a decision.")

	s.Put(t, held(nil))
	s.Forbidden = func(_, path string) bool { return path == "kausality.io/v1alpha1/drifts" || path == "v1/namespaces" }
	clock.Move(time.Minute)
	shows(t, b.get(b.page.base+"/"), "shops-7f3", "You may not list changes of the whole cluster. Listed are those of 1 Namespace.")

	s.Forbidden = func(_, path string) bool { return strings.Contains(path, "drifts") || path == "v1/namespaces" }
	clock.Move(2 * time.Minute)
	taken := b.get(b.page.base + "/")
	assert.Equal(t, http.StatusForbidden, taken.code, "what may not be read any more is not shown")
	assert.NotContains(t, taken.body, "shops-7f3")
	fresh := open(t, o).get
	other := open(t, o)
	r := fresh(other.page.base + "/")
	assert.Equal(t, http.StatusNotFound, r.code, "the path of another page")
	r = other.get(other.page.base + "/")
	assert.Equal(t, http.StatusForbidden, r.code)
	assert.Contains(t, r.body, "kausality-viewer")
}

// TestAway covers KR-17-16: while the API server is away, what was read last is shown, and what was entered is kept.
func TestAway(t *testing.T) {
	s, o, clock := newServer(t, held(nil))
	b := open(t, o)
	shows(t, b.get(b.page.base+"/"), "shops-7f3")
	confirmation := b.get(b.change("reject"))
	s.SetAway(true)
	clock.Move(time.Minute)
	shows(t, b.get(b.page.base+"/"), "The API server does not answer", "shops-7f3", "2026-01-05T10:00:00Z")
	change := b.get(b.change(""))
	assert.Equal(t, http.StatusServiceUnavailable, change.code)
	assert.Contains(t, change.body, "The API server does not answer")
	form := filled(confirmation.body, map[string][]string{"reason": {"not before the audit"}})
	lost := b.send(b.change("reject"), form, nil)
	assert.Equal(t, http.StatusServiceUnavailable, lost.code)
	assert.Contains(t, lost.body, "not before the audit")
	s.SetAway(false)
	again := b.send(b.change("reject"), filled(lost.body, map[string][]string{"reason": {"not before the audit"}}), nil)
	shows(t, again, "Rejected.")
	assert.Contains(t, s.Annotations(shopPath)[v1alpha1.AnnotationKeyRejections], "not before the audit")
}

// TestHostile covers KR-17-14: names and values are text, whatever is in them; secret ones are not shown, and long ones are cut.
func TestHostile(t *testing.T) {
	const script = `<script>alert(1)</script>`
	secret := held(func(d *v1alpha1.Drift) {
		d.Spec.Causes[0].Name, d.Spec.Causes[0].Author = script, "\u202e"+script+`" onload="x`
		d.Spec.Child.Name = "orders\u202e" + script
		d.Spec.Difference = []v1alpha1.FieldDifference{
			{Path: "spec." + script, Verb: "Mutate", Old: `"` + script + `"`, New: `"` + strings.Repeat("x", 1<<20) + `"`},
			{Path: "spec.forProvider.password", Verb: "Mutate", Old: "<redacted>", New: "<redacted>"},
		}
		d.Status.Lacks = script
	})
	s, o, _ := newServer(t, secret)
	s.Objects["v1/namespaces/team/secrets/s"] = map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "namespace": "team", "uid": "s"},
		"data": map[string]any{"password": "aHVudGVyMg=="},
	}
	b := open(t, o)
	own := `<script src="` + scriptPath + `" defer></script>`
	for _, path := range []string{
		b.page.base + "/", b.page.base + "/cause?key=" + script, b.change(""), b.change("approve"), b.change("reject"), b.change(script),
		b.page.base + "/object?apiVersion=v1&kind=Secret&namespace=team&name=s",
		b.page.base + "/object?apiVersion=cloud.example.org%2Fv1&kind=Database&namespace=team&name=orders-db",
		b.page.base + "/object?apiVersion=" + script + "&kind=" + script + "&name=" + script,
	} {
		r := b.get(path)
		assert.NotEqual(t, http.StatusInternalServerError, r.code, path)
		for _, never := range []string{"<script", "\u202e", `onload="`, "hunter2", "aHVudGVyMg", "style=", "javascript:"} {
			assert.NotContains(t, strings.ToLower(strings.Replace(r.body, own, "", 1)), strings.ToLower(never), path)
		}
		assert.LessOrEqual(t, len(r.body), 60<<10, path)
	}
	shows(t, b.get(b.change("")), "&lt;script&gt;", "secret, not shown", "bytes more")
}

// TestMany covers KR-17-15: the first page of 10,000 changes of 40 causes.
func TestMany(t *testing.T) {
	s, o, _ := newServer(t)
	for n := range 10000 {
		s.Put(t, held(func(d *v1alpha1.Drift) {
			d.Name, d.Spec.ID = fmt.Sprintf("%016x", n), fmt.Sprintf("%016x", n)
			d.Spec.Child.Name, d.Spec.Causes[0].Name = fmt.Sprintf("orders-%d", n), fmt.Sprintf("shops-%d", n%40)
			d.Status.Lacks = fmt.Sprintf("%d of 2 approvals; needs 1 more of group %s", n%5, strings.Repeat("dba", 40))
			d.Spec.Difference[0].New = fmt.Sprintf("%q", strings.Repeat("<long>", n%7*10))
		}))
	}
	b := open(t, o)
	began := time.Now()
	first := b.get(b.page.base + "/")
	cold := time.Since(began)
	shows(t, first, "10000 changes of 40 causes")
	assert.LessOrEqual(t, len(first.body), 60<<10)
	began = time.Now()
	const rounds = 20
	for range rounds {
		b.get(b.page.base + "/")
	}
	warm := time.Since(began) / rounds
	t.Logf("first page: %d bytes, %v cold, %v warm", len(first.body), cold, warm)
	assert.Less(t, warm, time.Second, "it is not read again each time")
	b.run()
	_, events := b.stream(t.Context())
	next(t, events, "open")
	s.AwaitWatches(t, 1)
	await.Poll(t, "all Drifts to be known", b.page.view.Synced)
	const changes = 5
	began = time.Now()
	for n := range changes {
		s.Put(t, held(func(d *v1alpha1.Drift) {
			d.Name, d.Spec.ID = fmt.Sprintf("%016x", 1<<20+n), fmt.Sprintf("%016x", 1<<20+n)
		}))
		for want := fmt.Sprintf("%d changes of", 10001+n); !strings.Contains(b.get(b.page.base+"/").body, want); {
			next(t, events, "change")
		}
	}
	live := time.Since(began) / changes
	t.Logf("from an event to the first page: %v", live)
	assert.Less(t, live, 5*time.Second)
	cause := b.get(b.page.base + "/cause?key=shops-7")
	shows(t, cause, "1 to 100 of 250", `rel="next"`)
	shows(t, b.get(b.page.base+"/cause?key=shops-7&from=200"), "201 to 250 of 250", `rel="prev"`)
}
