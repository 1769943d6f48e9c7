package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/cloudstate"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/e2e/story"
	"github.com/kausality-io/function-kausality/test/provider/cloud"
)

// run of a row, in a Namespace of its own, which is also the name of its composite and
// Composition.
type run struct {
	t  *testing.T
	ns string
	row
	// begun is where the cloud's log was at first, from where it was when the fault began, until where it was when what
	// must not be done by then was judged.
	begun, from, until int64

	mu       sync.Mutex
	failed   bool
	log      []string
	requests requests
	// approved is where the cloud's log was when alice approved that a size which is written is written again; 0 for never.
	approved int64
	// unobserved: a request passed the webhook while that could not be called, and no trace
	// names its user.
	unobserved bool
}

func (r *run) enforces() bool { return r.row[ofMode] != logs }

// modes of the run: that of the Namespace, that of the composition function, and the annotations of the objects.
func (r *run) modes() (namespace, function string, annotations map[string]any) {
	if r.row[ofMode] == own {
		return logs, enforces, map[string]any{v1alpha1.AnnotationKeyMode: enforces}
	}
	return r.row[ofMode], r.row[ofMode], map[string]any{}
}

func (r *run) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line := time.Now().UTC().Format("15:04:05.000 ") + fmt.Sprintf(format, args...)
	r.log = append(r.log, line)
	if *verbose {
		fmt.Fprintf(os.Stderr, "%s %s\n", r.ns, line)
	}
}

// fail the test, with what was done the first time.
func (r *run) fail(format string, args ...any) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.failed {
		r.t.Logf("%s in %s:\n%s", r.row, r.ns, strings.Join(r.log, "\n"))
	}
	r.failed = true
	r.t.Errorf("%s: %s", r.row, fmt.Sprintf(format, args...))
}

func (r *run) of(user string, g schema.GroupVersionResource) dynamic.ResourceInterface {
	if user == "" {
		return the.admin.Resource(g).Namespace(r.ns)
	}
	return the.users[user].Resource(g).Namespace(r.ns)
}

const (
	// patience with everything that goes on after a fault.
	patience = time.Minute
	// pace of attempts, and how long one may take.
	pace, attempt = 500 * time.Millisecond, 10 * time.Second
)

// insist until f succeeds: users and tools repeat what failed. Processes of the control
// plane end here by design, which controlplane.Eventually takes for the end of a test.
func (r *run) insist(ctx context.Context, what string, f func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, controlplane.Patience(patience))
	defer cancel()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	began, last := time.Now(), ""
	for {
		one, cancelOne := context.WithTimeout(limited, attempt)
		err := f(one)
		cancelOne()
		if err == nil {
			r.note("%s: done after %s", what, time.Since(began).Round(100*time.Millisecond))
			return nil
		}
		if text := fmt.Sprintf("%.300s", err); text != last {
			r.note("%s: %s", what, text)
			last = text
		}
		select {
		case <-limited.Done():
			return fmt.Errorf("waited %s for %s: %w", time.Since(began).Round(time.Second), what, err)
		case <-tick.C:
		}
	}
}

const objects = `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s, labels: {outage: %[2]s}, annotations: {kausality.io/mode: %[3]s}}
---
`

const composed = `
      - name: database
        base:
          apiVersion: cloud.example.org/v1alpha1
          kind: Database
          metadata: {annotations: %s}
          spec: {forProvider: {size: 0, tags: {tier: %s}}}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: spec.forProvider.size}`

const step = `
  - step: kausality
    functionRef: {name: function-kausality}
    input: {apiVersion: kausality.fn.crossplane.io/v1alpha1, kind: Input, mode: %s, settleGrace: 1s}`

const bronze, gold = "bronze", "gold"

func (r *run) compose(ctx context.Context, tier string) error {
	databases := story.Definition{Group: story.XDatabases.Group, Version: story.XDatabases.Version, Kind: "XDatabase"}
	_, mode, annotations := r.modes()
	raw, err := json.Marshal(annotations)
	if err != nil {
		return err
	}
	return the.Apply(ctx, databases.Composition(r.ns, fmt.Sprintf(composed, raw, tier), fmt.Sprintf(step, mode)))
}

// prepare what there is before the chapter.
func (r *run) prepare(ctx context.Context) error {
	var err error
	if r.begun, err = the.Cloud.LastSeq(ctx); err != nil {
		return err
	}
	mode, _, _ := r.modes()
	if err := the.Apply(ctx, fmt.Appendf(nil, objects, r.ns, r.row[ofFailure], mode)); err != nil {
		return err
	}
	if err := r.compose(ctx, bronze); err != nil {
		return err
	}
	if r.row[ofChapter] != created {
		if err := r.insist(ctx, "hans creates the XR", r.create(20)); err != nil {
			return err
		}
		if r.row[ofChapter] != settled {
			if err := r.insist(ctx, "the XR settles", r.isSettled); err != nil {
				return err
			}
		}
	}
	if before := plays[r.row[ofChapter]].before; before != nil {
		if err := before(ctx, r); err != nil {
			return err
		}
	}
	r.from, err = the.Cloud.LastSeq(ctx)
	return err
}

func (r *run) request(size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests.add(size)
}

// create the XR by hans; the request may have succeeded without an answer.
func (r *run) create(size int64) func(context.Context) error {
	r.request(size)
	_, _, annotations := r.modes()
	return func(ctx context.Context) error {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1alpha1", "kind": "XDatabase",
			"metadata": map[string]any{"name": r.ns, "annotations": annotations},
			"spec":     map[string]any{"size": size, "crossplane": map[string]any{"compositionRef": map[string]any{"name": r.ns}}}}}
		got, err := r.of(story.Hans, story.XDatabases).Create(ctx, o, metav1.CreateOptions{FieldManager: "kubectl"})
		if kerrors.IsAlreadyExists(err) {
			return nil
		}
		return r.accepted(got, err)
	}
}

// resize by hans.
func (r *run) resize(size int64) func(context.Context) error {
	r.request(size)
	return func(ctx context.Context) error {
		return r.merge(ctx, story.Hans, story.XDatabases, r.ns, map[string]any{"spec": map[string]any{"size": size}})
	}
}

func (r *run) merge(ctx context.Context, user string, g schema.GroupVersionResource, name string, patch map[string]any) error {
	raw, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	got, err := r.of(user, g).Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "kubectl"})
	if patch["spec"] == nil {
		return err
	}
	return r.accepted(got, err)
}

// accepted request of hans: whether the webhook observed it.
func (r *run) accepted(got *unstructured.Unstructured, err error) error {
	if err != nil {
		return err
	}
	hops, err := story.Trace(got)
	r.mu.Lock()
	r.unobserved = err != nil || hops[len(hops)-1].User != story.Hans || hops[len(hops)-1].Generation != got.GetGeneration()
	r.mu.Unlock()
	if r.unobserved {
		r.note("the webhook did not observe generation %d of the XR", got.GetGeneration())
	}
	return nil
}

// arrives in the cloud: a size that hans requested. What the webhook did not observe is not
// known to be requested (KR-01-10): where it enforces, it may be reported as a difference that waits for an approval.
func (r *run) arrives(size int64) func(context.Context) error {
	reaches := r.reaches(size)
	return func(ctx context.Context) error {
		err := reaches(ctx)
		if err == nil || !r.unobserved || !r.enforces() || r.row[ofFailure] != "Ignore" {
			return err
		}
		suggestion, missing := r.suggested(ctx)
		if missing != nil {
			return errors.Join(err, missing)
		}
		r.note("reported, with %q", suggestion)
		return nil
	}
}

func annotation(key string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}}
}

// database that is composed.
func (r *run) database(ctx context.Context) (*unstructured.Unstructured, error) {
	list, err := r.of("", story.Databases).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	if n := len(list.Items); n != 1 {
		return nil, fmt.Errorf("there are %d Databases", n)
	}
	return &list.Items[0], nil
}

// outside is the database in the cloud.
func (r *run) outside(ctx context.Context) (cloud.Database, error) {
	o, err := r.database(ctx)
	if err != nil {
		return cloud.Database{}, err
	}
	return the.Cloud.Get(ctx, o.GetName())
}

// isSettled: the XR has its latch, and where it enforces the gate is closed.
func (r *run) isSettled(ctx context.Context) error {
	xr, err := r.of("", story.XDatabases).Get(ctx, r.ns, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if xr.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration] == "" {
		return fmt.Errorf("the XR has not settled: %v %v", xr.GetAnnotations(), xr.Object["status"])
	}
	if _, err := r.outside(ctx); err != nil {
		return err
	}
	return r.isClosed(ctx)
}

// isClosed: the gate is closed where it enforces.
func (r *run) isClosed(ctx context.Context) error {
	if !r.enforces() {
		return nil
	}
	o, err := r.database(ctx)
	if err != nil {
		return err
	}
	if p, g := story.Policies(o), mask.ParseGate(o.GetAnnotations()); !slices.Equal(p, []string{"Observe"}) || g.State != v1alpha1.GateClosed {
		return fmt.Errorf("the gate is %+v with %v: %v %v", g, p, o.GetAnnotations(), o.Object["status"])
	}
	return nil
}

// reaches the cloud: a size.
func (r *run) reaches(size int64) func(context.Context) error {
	return func(ctx context.Context) error {
		d, err := r.outside(ctx)
		if err != nil {
			return err
		}
		if d.Size != size {
			xr, err := r.of("", story.XDatabases).Get(ctx, r.ns, metav1.GetOptions{})
			mr, err2 := r.database(ctx)
			if err := errors.Join(err, err2); err != nil {
				return err
			}
			return fmt.Errorf("the size is %d, want %d; Database %v %v, XR %v %v", d.Size, size, mr.Object["spec"], mr.GetAnnotations(),
				xr.Object["spec"], xr.GetAnnotations())
		}
		return nil
	}
}

// observed: the provider has observed the database since the fault ended, and could have
// written.
func (r *run) observed(ctx context.Context) error {
	o, err := r.database(ctx)
	if err != nil {
		return err
	}
	since, err := the.Cloud.LastSeq(ctx)
	if err != nil {
		return err
	}
	return r.insist(ctx, "the provider observes the database", func(ctx context.Context) error {
		if n, err := the.Cloud.Reads(ctx, since, o.GetName()); err != nil || n < 3 {
			return errors.Join(err, fmt.Errorf("%d observations", n))
		}
		return nil
	})
}

// judge each field of the external writes, until the end: also hans's next change carries nothing that was held before it.
func (r *run) judge(ctx context.Context) {
	r.t.Helper()
	log, err := the.Cloud.Log(ctx, r.begun)
	if err != nil {
		r.fail("cannot read the log of the cloud: %v", err)
		return
	}
	all := map[string]*cloudstate.Database{}
	for _, e := range log {
		name := cloudstate.NameOf(e)
		if !strings.HasPrefix(name, r.ns+"-") {
			continue
		}
		if all[name] == nil {
			all[name] = &cloudstate.Database{}
		}
		if e.IsWrite() {
			r.judgeWrite(name, all[name], e)
		}
		if err := all[name].Take(e); err != nil {
			r.fail("%s %s %s: %v", e.Method, name, e.Body, err)
		}
	}
}

func (r *run) judgeWrite(name string, before *cloudstate.Database, e cloud.Entry) {
	r.t.Helper()
	p, what := plays[r.row[ofChapter]], fmt.Sprintf("%s %s %s at %s", e.Method, name, e.Body, e.Time.Format("15:04:05.000"))
	r.note("the cloud got %s", what)
	if e.Method == http.MethodDelete {
		if !p.deletes && (r.enforces() || r.row[ofChapter] != deleted) {
			r.fail("%s: no user requested a deletion that is allowed", what)
		}
		return
	}
	if p.still && r.enforces() && e.Seq > r.from && e.Seq <= r.until {
		r.fail("%s: nothing may be written in this chapter", what)
	}
	body, values := cloudstate.Fields{}, cloud.DatabaseFields{}
	if err := errors.Join(json.Unmarshal(e.Body, &body), json.Unmarshal(e.Body, &values)); err != nil {
		r.fail("%s: %v", what, err)
		return
	}
	for _, field := range before.Changed(body) {
		switch tier := values.Tags["tier"]; {
		case field == "size":
			again := !r.enforces() || !before.Exists || r.approved > 0 && e.Seq > r.approved
			if err := r.requests.write(name, values.Size, again, e.Succeeded()); err != nil {
				r.fail("%s: %v", what, err)
			}
		case field == "engine" && !before.Exists && values.Engine == cloud.DefaultEngine: // it is created as the XR requests it
		case field == "tags" && len(values.Tags) == 1 && !before.Exists && tier == bronze: // likewise
		case field == "tags" && len(values.Tags) == 1 && !r.enforces() && r.row[ofChapter] == upgraded && tier == gold:
		default:
			r.fail("%s: no user requested another %s than %s", what, field, before.Fields[field])
		}
	}
}

// goesOn: hans's next change reaches the cloud, and the gate closes after it.
func (r *run) goesOn(ctx context.Context) error {
	// Until a process that was killed is ready, it is away.
	if err := r.insist(ctx, "the webhook to be ready", func(ctx context.Context) error { return the.ready(ctx, webhook) }); err != nil {
		return err
	}
	if err := r.insist(ctx, "hans resizes the XR after the fault", r.resize(90)); err != nil {
		return err
	}
	if r.unobserved {
		return errors.New("the webhook is ready, and did not observe hans's change")
	}
	if err := r.insist(ctx, "hans's change reaches the cloud", r.reaches(90)); err != nil {
		return err
	}
	if err := r.insist(ctx, "the gate closes", r.isClosed); err != nil {
		return err
	}
	xr, err := r.of("", story.XDatabases).Get(ctx, r.ns, metav1.GetOptions{})
	if err != nil {
		return err
	}
	hops, err := story.Trace(xr)
	if err != nil {
		return err
	}
	if user := hops[len(hops)-1].User; user != story.Hans {
		return fmt.Errorf("the trace of the XR names %q", user)
	}
	return nil
}

// leave nothing that is observed further.
func (r *run) leave(ctx context.Context) error {
	list, err := r.of("", story.Databases).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, o := range list.Items {
		if err := r.merge(ctx, story.Alice, story.Databases, o.GetName(), annotation("kausality.io/deletion", "orphan")); err != nil {
			return err
		}
	}
	return the.admin.Resource(namespaces).Delete(ctx, r.ns, metav1.DeleteOptions{})
}
