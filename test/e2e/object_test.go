package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/auditlog"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// The external writes of provider-kubernetes are in the API server's audit log:
// its external resources are ConfigMaps of the same cluster.

const providerKubernetes = "system:serviceaccount:crossplane-system:provider-kubernetes"

func isNotFound(err error) bool { return kerrors.IsNotFound(err) }

// request of provider-kubernetes about a ConfigMap.
type request struct {
	verb string
	code int32
}

// auditLog of the API server, read as it grows.
type auditLog struct {
	mu   sync.Mutex
	tail *auditlog.Tail
	seen map[string][]request // by NAMESPACE/NAME
}

// requests of provider-kubernetes about a ConfigMap so far, in order.
func (y *scenario) requests(namespace, name string) []request {
	y.t.Helper()
	y.audit.mu.Lock()
	defer y.audit.mu.Unlock()
	require.NoError(y.t, y.audit.tail.Read(y.audit.take))
	return slices.Clone(y.audit.seen[namespace+"/"+name])
}

func (l *auditLog) take(line []byte) error {
	if !bytes.Contains(line, []byte(`"configmaps"`)) || !bytes.Contains(line, []byte(providerKubernetes)) {
		return nil
	}
	var e struct {
		Verb           string
		User           struct{ Username string }
		ObjectRef      struct{ Resource, Namespace, Name string }
		ResponseStatus struct{ Code int32 }
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	if e.User.Username == providerKubernetes && e.ObjectRef.Resource == "configmaps" {
		key := e.ObjectRef.Namespace + "/" + e.ObjectRef.Name
		l.seen[key] = append(l.seen[key], request{e.Verb, e.ResponseStatus.Code})
	}
	return nil
}

// written are the verbs of external writes that succeeded, and tried those of all.
func (y *scenario) written(namespace, name string) (written, tried []string) {
	y.t.Helper()
	for _, r := range y.requests(namespace, name) {
		if r.verb == "get" {
			continue
		}
		tried = append(tried, r.verb)
		if r.code < 300 {
			written = append(written, r.verb)
		}
	}
	return written, tried
}

// wrote asserts all external writes to a ConfigMap since it exists.
func (y *scenario) wrote(name string, want ...string) {
	y.t.Helper()
	if got, _ := y.written(y.ns, name); !slices.Equal(got, want) {
		y.t.Fatalf("%s: external writes %v, want %v", y.ns, got, want)
	}
}

// looks waits until provider-kubernetes has observed a ConfigMap n times more.
func (y *scenario) looks(name string, n int) {
	y.t.Helper()
	count := func() (looks int) {
		for _, r := range y.requests(y.ns, name) {
			if r.verb == "get" {
				looks++
			}
		}
		return looks
	}
	from := count()
	y.until(fmt.Sprintf("%d looks of the provider", n), func(context.Context) error {
		if seen := count() - from; seen < n {
			return fmt.Errorf("it looked %d times", seen)
		}
		return nil
	})
}

// object of hans's: a ConfigMap beside it, with a size.
func (y *scenario) object(name string, policies ...any) *unstructured.Unstructured {
	y.t.Helper()
	spec := map[string]any{
		"providerConfigRef": map[string]any{"kind": "ClusterProviderConfig", "name": "default"},
		"forProvider": map[string]any{"manifest": map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"namespace": y.ns, "name": name}, "data": map[string]any{"size": "10"}}},
	}
	if len(policies) > 0 {
		spec["managementPolicies"] = policies
	}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kubernetes.m.crossplane.io/v1alpha1", "kind": "Object",
		"metadata": map[string]any{"name": name}, "spec": spec}}
	o, err := y.hans.Resource(story.Settings).Namespace(y.ns).Create(y.ctx, o, metav1.CreateOptions{})
	require.NoError(y.t, err)
	return o
}

// settings that exist, behind a closed gate.
func (y *scenario) settings() (name string) {
	y.t.Helper()
	y.object("settings")
	y.awaitClosed(story.Settings, "settings")
	y.wrote("settings", "create")
	return "settings"
}

func sized(size string) map[string]any {
	return map[string]any{"spec": map[string]any{"forProvider": map[string]any{"manifest": map[string]any{"data": map[string]any{"size": size}}}}}
}

func (y *scenario) awaitSize(name, size string) {
	y.t.Helper()
	y.until("the ConfigMap to have size "+size, func(ctx context.Context) error {
		cm, err := y.admin.Resource(configMaps).Namespace(y.ns).Get(ctx, name, metav1.GetOptions{})
		if err == nil && at(cm, "data", "size") != size {
			err = fmt.Errorf("it has %v", cm.Object["data"])
		}
		return err
	})
}

// objectChanged: an accepted change opens the gate for one write, and the author's
// value written again for none.
func objectChanged(y *scenario) {
	name := y.settings()
	before := y.get(story.Settings, name)
	for range 3 {
		require.NoError(y.t, y.merge(y.hans, story.Settings, name, map[string]any{"spec": map[string]any{"managementPolicies": []any{"*"}}}))
	}
	if after := y.get(story.Settings, name); after.GetGeneration() != before.GetGeneration() || !slices.Equal(story.Policies(after), []string{"Observe"}) {
		y.t.Errorf("generation %d → %d, policies %v", before.GetGeneration(), after.GetGeneration(), story.Policies(after))
	}
	require.NoError(y.t, y.merge(y.hans, story.Settings, name, sized("20")))
	y.awaitSize(name, "20")
	y.awaitClosed(story.Settings, name)
	y.looks(name, 2)
	y.wrote(name, "create", "patch")
}

// tampered with by kubectl apply, so that the provider can observe it.
func (y *scenario) tamper(name, size string) {
	y.t.Helper()
	last, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": y.ns, "name": name}, "data": map[string]any{"size": size}})
	require.NoError(y.t, err)
	require.NoError(y.t, y.merge(y.admin, configMaps, name, map[string]any{"data": map[string]any{"size": size},
		"metadata": map[string]any{"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": string(last)}}}))
}

// differs by one field.
func differs(path, is, should string) func(*unstructured.Unstructured) error {
	return func(d *unstructured.Unstructured) error {
		list, _, _ := unstructured.NestedSlice(d.Object, "spec", "difference")
		if len(list) == 1 {
			f, _ := list[0].(map[string]any)
			value := func(key string) string { return strings.Trim(fmt.Sprint(f[key]), `"`) } // as JSON
			if f["path"] == path && value("old") == is && value("new") == should {
				return nil
			}
		}
		return fmt.Errorf("the difference is %v", list)
	}
}

// objectDrift: reported field by field, left alone, and set back in one write once
// that is approved.
func objectDrift(y *scenario) {
	name := y.settings()
	y.tamper(name, "99")
	d := y.awaitDrift(name, differs("spec.forProvider.manifest.data.size", "99", "10"))
	y.looks(name, 3)
	y.wrote(name, "create")
	y.follow(at(d, "spec", "suggestedApproval"))
	y.awaitSize(name, "10")
	y.awaitClosed(story.Settings, name)
	y.wrote(name, "create", "patch")
	y.until("the drift to be resolved", func(ctx context.Context) error {
		o, err := y.admin.Resource(story.Drifts).Namespace(y.ns).Get(ctx, d.GetName(), metav1.GetOptions{})
		if err == nil && at(o, "status", "phase") != "Resolved" {
			err = fmt.Errorf("its status is %v", o.Object["status"])
		}
		return err
	})
}

// objectGone: that the ConfigMap was deleted is a difference, and it is created again
// only once that is approved.
func objectGone(y *scenario) {
	name := y.settings()
	require.NoError(y.t, y.admin.Resource(configMaps).Namespace(y.ns).Delete(y.ctx, name, metav1.DeleteOptions{}))
	d := y.awaitDrift(name, differs("exists", "false", "true"))
	y.looks(name, 3)
	y.wrote(name, "create")
	y.follow(at(d, "spec", "suggestedApproval"))
	y.awaitSize(name, "10")
	y.awaitClosed(story.Settings, name)
	y.wrote(name, "create", "create")
}

// minute is a policy with the shortest deadline that there may be.
const minute = `
apiVersion: kausality.io/v1alpha1
kind: Kausality
metadata: {name: minute}
spec:
  mode: enforce
  namespaces: {names: [%s]}
  resources: [{apiGroups: [kubernetes.m.crossplane.io], resources: [objects]}]
  gate: {deadline: 1m}
`

// objectFailing: an update that always fails keeps the gate open until its deadline;
// after that the provider does not try again.
func objectFailing(y *scenario) {
	require.NoError(y.t, y.e.Apply(y.ctx, fmt.Appendf(nil, minute, y.ns)))
	name := y.settings()
	require.NoError(y.t, y.merge(y.admin, configMaps, name, map[string]any{"immutable": true}))
	require.NoError(y.t, y.merge(y.hans, story.Settings, name, sized("20")))
	y.until("the provider to fail behind an open gate", func(ctx context.Context) error {
		o, err := y.admin.Resource(story.Settings).Namespace(y.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if _, tried := y.written(y.ns, name); gateOf(o).State != v1alpha1.GateOpen || len(tried) < 3 {
			return fmt.Errorf("gate %+v, tried %v", gateOf(o), tried)
		}
		return nil
	})
	y.awaitClosed(story.Settings, name)
	if g := gateOf(y.get(story.Settings, name)); g.Reason != "ExpiredUnconfirmed" {
		y.t.Errorf("closed as %+v", g)
	}
	y.looks(name, 2) // one may have begun before
	_, before := y.written(y.ns, name)
	y.looks(name, 2)
	if _, after := y.written(y.ns, name); len(after) != len(before) {
		y.t.Errorf("tried behind a closed gate: %v, before that %v", after, before)
	}
	y.wrote(name, "create")
}

// objectDeleted: refused, approved by the command of the refusal, and then both go.
func objectDeleted(y *scenario) {
	name, how := y.settings(), metav1.DeletePropagationBackground
	why := y.refused(y.remove(story.Settings, name, how))
	y.awaitSize(name, "10")
	y.follow(why)
	y.passes(story.Settings, name, how)
	y.awaitGone(story.Settings, y.ns, name)
	y.awaitGone(configMaps, y.ns, name)
	y.wrote(name, "create", "delete")
}

// objectOrphaned: the ConfigMap stays, because a user decided so, and an event reports it.
func objectOrphaned(y *scenario) {
	name, how := y.settings(), metav1.DeletePropagationBackground
	y.refused(y.remove(story.Settings, name, how))
	y.annotate(story.Settings, name, v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan)
	y.passes(story.Settings, name, how)
	y.awaitGone(story.Settings, y.ns, name)
	y.awaitSize(name, "10")
	y.wrote(name, "create")
	y.until("an event that names what is left behind", func(ctx context.Context) error {
		list, err := y.admin.Resource(events).Namespace(y.ns).List(ctx, metav1.ListOptions{FieldSelector: "reason=ExternalOrphaned"})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("%d events", len(list.Items))
		}
		return err
	})
}

// objectObserved: its author's policies only permit Observe; there is nothing to
// mask, and deleting it leaves the external resource.
func objectObserved(y *scenario) {
	cm := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "theirs"}, "data": map[string]any{"size": "3"},
	}}
	_, err := y.admin.Resource(configMaps).Namespace(y.ns).Create(y.ctx, cm, metav1.CreateOptions{})
	require.NoError(y.t, err)
	o := y.object("theirs", "Observe")
	y.looks("theirs", 3)
	o = y.get(story.Settings, o.GetName())
	a, policies := o.GetAnnotations(), story.Policies(o)
	if a[v1alpha1.AnnotationKeyGate] != "" || a[v1alpha1.AnnotationKeyManagementPolicies] != "" || !slices.Equal(policies, []string{"Observe"}) {
		y.t.Errorf("it was touched: %v %v", a, story.Policies(o))
	}
	require.NoError(y.t, y.remove(story.Settings, "theirs", metav1.DeletePropagationBackground))
	y.awaitGone(story.Settings, y.ns, "theirs")
	y.awaitSize("theirs", "3")
	y.wrote("theirs")
}
