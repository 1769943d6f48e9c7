package recovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// fixture is a Namespace with a composite orders and a Database without a parent.
type fixture struct {
	t    *testing.T
	ns   string
	hans dynamic.Interface
	// mr is the name of the Database of the composite.
	mr string
	// from is where the log of the cloud was when the fixture was settled.
	from int64
}

const composite = "orders"

func (f *fixture) lone() string { return f.ns + "-lone" }

// newFixture settles twice, so that generations are not those of new objects.
func newFixture(t *testing.T, ns string) *fixture {
	t.Helper()
	hans, err := as(story.Hans)
	require.NoError(t, err)
	f := &fixture{t: t, ns: ns, hans: hans}
	_, err = hans.Resource(namespaces).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	f.create(story.XDatabases, "XDatabase", composite, map[string]any{"size": int64(10)})
	f.create(story.Databases, "Database", f.lone(), map[string]any{"forProvider": map[string]any{"size": int64(10)}})
	f.settled()
	for size := range int64(2) {
		f.requests(20 + size)
		f.settled()
		f.reaches(20 + size)
	}
	f.from, err = the.Cloud.LastSeq(t.Context())
	require.NoError(t, err)
	return f
}

func (f *fixture) of(r schema.GroupVersionResource) dynamic.ResourceInterface {
	return f.hans.Resource(r).Namespace(f.ns)
}

func (f *fixture) create(r schema.GroupVersionResource, kind, name string, spec map[string]any) {
	f.t.Helper()
	_, err := f.of(r).Create(f.t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": r.GroupVersion().String(), "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": spec}}, metav1.CreateOptions{FieldManager: "kubectl"})
	require.NoError(f.t, err)
}

func (f *fixture) merge(ctx context.Context, r schema.GroupVersionResource, name string, patch map[string]any) error {
	raw, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = f.of(r).Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "kubectl"})
	return err
}

// requests of hans: another size of both.
func (f *fixture) requests(size int64) {
	f.t.Helper()
	wait.For(f.t, "hans's change to be taken", patience, func(ctx context.Context) error {
		return errors.Join(
			f.merge(ctx, story.XDatabases, composite, map[string]any{"spec": map[string]any{"size": size}}),
			f.merge(ctx, story.Databases, f.lone(), map[string]any{"spec": map[string]any{"forProvider": map[string]any{"size": size}}}))
	})
}

// reaches: both have a size in the cloud.
func (f *fixture) reaches(size int64) {
	f.t.Helper()
	wait.For(f.t, fmt.Sprintf("size %d to reach the cloud", size), patience, func(ctx context.Context) error {
		for _, name := range []string{f.mr, f.lone()} {
			d, err := the.Cloud.Get(ctx, name)
			if err != nil {
				return err
			}
			if d.Size != size {
				return fmt.Errorf("%s has size %d: %s", name, d.Size, f.dump(ctx))
			}
		}
		return nil
	})
}

// settled: the composite at its last intent, and both gates are closed.
func (f *fixture) settled() {
	f.t.Helper()
	wait.For(f.t, "everything to settle", patience, func(ctx context.Context) error {
		xr, err := f.of(story.XDatabases).Get(ctx, composite, metav1.GetOptions{})
		if err != nil {
			return err
		}
		hops, err := story.Trace(xr)
		if err != nil {
			return err
		}
		want := fmt.Sprint(hops[len(hops)-1].Generation)
		if have := xr.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration]; have != want {
			return fmt.Errorf("the composite settled at %q, its intent is %s: %s", have, want, f.dump(ctx))
		}
		return f.closed(ctx)
	})
}

// closed: there are the two Databases with closed gates.
func (f *fixture) closed(ctx context.Context) error {
	list, err := f.of(story.Databases).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(list.Items) != 2 {
		return fmt.Errorf("there are %d Databases", len(list.Items))
	}
	for _, o := range list.Items {
		if g := mask.ParseGate(o.GetAnnotations()); g.State != v1alpha1.GateClosed || !slices.Equal(story.Policies(&o), []string{"Observe"}) {
			return fmt.Errorf("the gate of %s is not closed: %s", o.GetName(), f.dump(ctx))
		}
		if o.GetName() != f.lone() {
			f.mr = o.GetName()
		}
	}
	return nil
}

// dump is what is stored, for messages.
func (f *fixture) dump(ctx context.Context) string {
	out := ""
	for _, r := range []schema.GroupVersionResource{story.XDatabases, story.Databases} {
		list, err := f.of(r).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, o := range list.Items {
			o.SetManagedFields(nil)
			raw, _ := o.MarshalJSON()
			out += "\n" + string(raw)
		}
	}
	return out
}

// writes to the cloud since the fixture was settled.
func (f *fixture) writes() (out []string) {
	f.t.Helper()
	list, err := the.Cloud.Writes(f.t.Context(), f.from)
	require.NoError(f.t, err)
	for _, e := range list {
		if name := e.Path[1+lastSlash(e.Path):]; name == f.mr || name == f.lone() {
			out = append(out, fmt.Sprintf("%s %s %s", e.Method, name, e.Body))
		}
	}
	return out
}

func lastSlash(path string) int {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return i
		}
	}
	return -1
}

var command = regexp.MustCompile(`kubectl annotate -n (\S+) (\S+) (\S+) (kausality\.io/[^=\s]+)=(\w+)`)

// refusedDeletion of a Database, and the annotation that approves it.
func (f *fixture) refusedDeletion(name string) (key, value string) {
	f.t.Helper()
	err := f.of(story.Databases).Delete(f.t.Context(), name, metav1.DeleteOptions{})
	require.True(f.t, kerrors.IsForbidden(err), "deleting %s: %v", name, err)
	m := command.FindStringSubmatch(err.Error())
	require.NotNil(f.t, m, "%v", err)
	return m[4], m[5]
}

func (f *fixture) annotate(r schema.GroupVersionResource, name string, annotations map[string]any) {
	f.t.Helper()
	wait.For(f.t, "an annotation to be taken", patience, func(ctx context.Context) error {
		return f.merge(ctx, r, name, map[string]any{"metadata": map[string]any{"annotations": maps.Clone(annotations)}})
	})
}

// errorOr an error with a text, where there is none.
func errorOr(err error, text string) error {
	if err == nil {
		err = errors.New(text)
	}
	return err
}

// patience with one step.
const patience = 25 * time.Second
