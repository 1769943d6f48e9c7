package atrest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/auditlog"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}

// The groups of the kinds, of which the webhook guards one.
const guarded, plain = "guarded.example.net", "plain.example.net"

const (
	// interval after which Crossplane reconciles each composite, and how often it must do so at rest.
	interval, reconciles = 8 * time.Second, 5
	// calmWithin is how long it may take until it has, beside what moved before.
	calmWithin = 4 * time.Minute
	patience   = 90 * time.Second
)

// configuration of a composite: what guards it.
type configuration struct {
	name, group string
	// function: the pipeline has it. managed: managed resources are composed, too, which webhook and gate guard.
	function, managed bool
}

// composed counts what a composite of the configuration is composed of.
func (c configuration) composed() int {
	if c.managed {
		return len(kinds()) + 3
	}
	return len(kinds()) + 1
}

func (c configuration) definition() story.Definition {
	kind := "X" + strings.ToUpper(c.name[:1]) + c.name[1:]
	return story.Definition{Group: c.group, Version: "v1", Kind: kind, Plural: "x" + c.name, Spec: "{size: {type: integer}}"}
}

// managedResources are a Database and an Object with a manifest whose stringData the API server stores otherwise.
const managedResources = `
      - name: database
        base: {apiVersion: cloud.example.org/v1alpha1, kind: Database, spec: {forProvider: {size: 0}}}
        patches: [{type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: spec.forProvider.size}]
      - name: object
        base:
          apiVersion: kubernetes.m.crossplane.io/v1alpha1
          kind: Object
          spec:
            providerConfigRef: {kind: ClusterProviderConfig, name: default}
            forProvider: {manifest: {apiVersion: v1, kind: Secret, metadata: {namespace: default}, stringData: {user: hans}}}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: metadata.name, toFieldPath: spec.forProvider.manifest.metadata.name}
        - type: FromCompositeFieldPath
          fromFieldPath: spec.size
          toFieldPath: spec.forProvider.manifest.stringData.size
          transforms: [{type: convert, convert: {toType: string}}]`

// secret that is composed, with stringData, and a token that a revision of the Composition changes.
const secret = `
      - name: login
        base: {apiVersion: v1, kind: Secret, metadata: {name: login-of-%s}, stringData: {token: %s}}
        readinessChecks: [{type: None}]
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: stringData.size, transforms: [{type: convert, convert: {toType: string}}]}`

func (c configuration) composition(token string) []byte {
	var out strings.Builder
	for _, o := range kinds() {
		out.WriteString(o.composedAs(c.group))
	}
	fmt.Fprintf(&out, secret, c.name, token)
	if c.managed {
		out.WriteString(managedResources)
	}
	var steps []string
	if c.function {
		steps = append(steps, story.StepKausalityShortGrace)
	}
	return c.definition().Composition("rest-"+c.name, out.String(), append(steps, story.StepAutoReady)...)
}

// suite is an environment with composites.
type suite struct {
	*testing.T
	*story.Env
	admin          dynamic.Interface
	configurations []configuration
}

// start an environment with the kinds, their webhooks, and a composite of each configuration.
func start(t *testing.T, o story.Options, prepare func(context.Context, *suite), configurations ...configuration) (context.Context, *suite) {
	t.Helper()
	o.SyncInterval, o.Resources, o.AuditWrites = interval, []string{"*." + guarded}, []string{"*." + guarded, "*." + plain, "*.cloud.example.org",
		"*.kubernetes.m.crossplane.io", "secrets", "drifts.kausality.io"}
	ctx, e := story.StartTest(t, o)
	s := &suite{T: t, Env: e, configurations: configurations}
	var err error
	s.admin, err = dynamic.NewForConfig(e.Config())
	require.NoError(t, err)
	url, ca := startWebhooks(t, e)
	var crds strings.Builder
	for _, group := range []string{guarded, plain} {
		if slices.ContainsFunc(configurations, func(c configuration) bool { return c.group == group }) {
			for i, o := range kinds() {
				crds.WriteString(o.crd(i, group, url, ca))
			}
		}
	}
	require.NoError(t, e.Apply(ctx, []byte(crds.String())))
	// It is called before Kausality's, by its name (docs/design/0019-applied.md).
	require.NoError(t, e.Apply(ctx, fmt.Appendf(nil, `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: a-odd}
webhooks:
- name: odd.example.net
  admissionReviewVersions: [v1]
  sideEffects: None
  matchPolicy: Equivalent
  reinvocationPolicy: IfNeeded
  clientConfig: {url: %q, caBundle: %s}
  rules: [{apiGroups: [%s, %s], apiVersions: [v1], operations: [CREATE, UPDATE], resources: ["*"]}]
`, url+"/mutate", ca, guarded, plain)))
	if prepare != nil {
		prepare(ctx, s)
	}
	for _, user := range []string{story.Hans, story.Alice} {
		require.NoError(t, e.Grant(ctx, user))
	}
	for _, c := range configurations {
		require.NoError(t, e.Apply(ctx, c.definition().XRD()))
		s.apply(ctx, c.composition("one"))
	}
	for _, c := range configurations {
		s.apply(ctx, fmt.Appendf(nil, `{apiVersion: %s/v1, kind: %s, metadata: {namespace: default, name: rest-%[3]s},
  spec: {size: 1, crossplane: {compositionRef: {name: rest-%[3]s}}}}`, c.group, c.definition().Kind, c.name))
	}
	return ctx, s
}

func (s *suite) apply(ctx context.Context, manifest []byte) {
	s.Helper()
	require.NoError(s, controlplane.Eventually(ctx, "to apply it", patience, func(ctx context.Context) error { return s.Apply(ctx, manifest) }))
}

func (s *suite) eventually(ctx context.Context, what string, within time.Duration, f func(context.Context) error) {
	s.Helper()
	require.NoError(s, controlplane.EventuallyEvery(ctx, 500*time.Millisecond, what, within, f))
}

// object of a configuration: its composite, or one of what that is composed of.
type object struct {
	configuration string
	*unstructured.Unstructured
}

func (o object) key() string {
	return o.configuration + " " + o.GetKind() + " " + o.GetName()
}

// resourceOf a kind that is composed.
func resourceOf(ref *unstructured.Unstructured) schema.GroupVersionResource {
	gv, _ := schema.ParseGroupVersion(ref.GetAPIVersion()) //nolint:errcheck // Crossplane wrote it.
	return gv.WithResource(strings.ToLower(ref.GetKind()) + "s")
}

// objects of a configuration.
func (s *suite) objects(ctx context.Context, c configuration) ([]object, error) {
	xr, err := s.admin.Resource(c.definition().Resource()).Namespace("default").Get(ctx, "rest-"+c.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	refs, _, _ := unstructured.NestedSlice(xr.Object, "spec", "crossplane", "resourceRefs")
	if len(refs) != c.composed() {
		return nil, fmt.Errorf("%s is composed of %d, want %d: %v", c.name, len(refs), c.composed(), xr.Object["status"])
	}
	out := []object{{c.name, xr}}
	for _, r := range refs {
		ref := &unstructured.Unstructured{Object: r.(map[string]any)}
		name, _, _ := unstructured.NestedString(ref.Object, "name")
		o, err := s.admin.Resource(resourceOf(ref)).Namespace("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		out = append(out, object{c.name, o})
	}
	return out, nil
}

// arrives: all that is composed has a size, and the composite is ready.
func (s *suite) arrives(ctx context.Context, c configuration, size int64) error {
	all, err := s.objects(ctx, c)
	if err != nil {
		return err
	}
	for _, o := range all {
		if !has(o.Unstructured, size) {
			return fmt.Errorf("%s has not size %d: %v", o.key(), size, o.Object["spec"])
		}
		if held := o.GetAnnotations()[v1alpha1.AnnotationKeyHeld]; held != "" {
			return fmt.Errorf("%s is held: %s", o.key(), held)
		}
		if kind := o.GetKind(); kind == "Database" || kind == "Object" {
			if p := story.Policies(o.Unstructured); !slices.Equal(p, []string{"Observe"}) {
				return fmt.Errorf("the gate of %s is not closed: %v", o.key(), p)
			}
		}
	}
	return controlplane.ConditionTrue(all[0].Unstructured, "Ready")
}

// has a size, in whatever form.
func has(o *unstructured.Unstructured, size int64) bool {
	raw, err := json.Marshal([]any{o.Object["spec"], o.Object["data"]})
	return err == nil && (strings.Contains(string(raw), fmt.Sprintf(`"size":%d`, size)) || strings.Contains(string(raw), fmt.Sprintf(`"size":"%d"`, size)) ||
		strings.Contains(string(raw), fmt.Sprintf(`"size":%q`, encode(size))))
}

// versions of all objects.
func (s *suite) versions(ctx context.Context, of func(*unstructured.Unstructured) string) (map[string]string, error) {
	out := map[string]string{}
	for _, c := range s.configurations {
		all, err := s.objects(ctx, c)
		if err != nil {
			return nil, err
		}
		for _, o := range all {
			out[o.key()] = of(o.Unstructured)
		}
	}
	return out, nil
}

// asDesired is what no reconcile changes at rest: the generation, the data of a kind without one, and the annotations of Kausality, which
// the webhook could write with an apply of Crossplane's.
func asDesired(o *unstructured.Unstructured) string {
	annotations := maps.Clone(o.GetAnnotations())
	maps.DeleteFunc(annotations, func(key, _ string) bool { return !v1alpha1.IsKausality(key) })
	return fmt.Sprint(o.GetGeneration(), o.Object["data"], annotations)
}

// rest: in five reconciles of each composite no generation moves, and nothing of Kausality writes.
func (s *suite) rest(ctx context.Context) {
	s.Helper()
	log := auditlog.NewTail(s.AuditLog())
	applied := map[string]int{}
	var was map[string]string
	s.eventually(ctx, fmt.Sprintf("%d reconciles in which nothing moves", reconciles), calmWithin, func(ctx context.Context) error {
		var ours []string
		if err := log.Read(func(line []byte) error {
			e, err := read(line)
			switch {
			case err != nil:
				return err
			case e == nil:
			case e.byKausality():
				ours = append(ours, fmt.Sprintf("%s %s %s/%s by %s", e.Verb, e.RequestURI, e.ObjectRef.Resource, e.ObjectRef.Name, e.User.Username))
			case e.applies():
				applied[e.ObjectRef.APIGroup+"/"+e.ObjectRef.Resource+"/"+e.ObjectRef.Name]++
			}
			return nil
		}); err != nil {
			return err
		}
		now, err := s.versions(ctx, asDesired)
		if err != nil {
			return err
		}
		if len(ours) > 0 || !maps.Equal(was, now) {
			moved := slices.DeleteFunc(slices.Sorted(maps.Keys(now)), func(k string) bool { return was[k] == now[k] })
			was, applied = now, map[string]int{}
			return fmt.Errorf("writes of Kausality: %v; moved: %v", ours, moved)
		}
		return s.reconciled(ctx, applied)
	})
}

// reconciled: each composed object was applied often enough.
func (s *suite) reconciled(ctx context.Context, applied map[string]int) error {
	for _, c := range s.configurations {
		all, err := s.objects(ctx, c)
		if err != nil {
			return err
		}
		for _, o := range all[1:] {
			r := resourceOf(o.Unstructured)
			if n := applied[r.Group+"/"+r.Resource+"/"+o.GetName()]; n < reconciles {
				return fmt.Errorf("%s was applied %d times", o.key(), n)
			}
		}
	}
	return nil
}

// change of a user arrives in all composites.
func (s *suite) change(ctx context.Context, size int64) {
	s.Helper()
	hans, err := s.As(story.Hans)
	require.NoError(s, err)
	for _, c := range s.configurations {
		_, err := hans.Resource(c.definition().Resource()).Namespace("default").Patch(ctx, "rest-"+c.name, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"size":%d}}`, size), metav1.PatchOptions{FieldManager: "kubectl"})
		require.NoError(s, err)
	}
	for _, c := range s.configurations {
		s.eventually(ctx, "hans's change to arrive in "+c.name, patience, func(ctx context.Context) error { return s.arrives(ctx, c, size) })
	}
}

// TestAtRest: with the function, with the webhook, with both and the gate, and with none, forty odd kinds are composed, Crossplane
// applies them at each reconcile, and nothing is written; a user's change arrives, and then it is so again (KR-09-13, KR-09-29).
func TestAtRest(t *testing.T) {
	ctx, s := start(t, story.Options{Webhook: true, Function: true, SteadyBreaker: false}, nil,
		configuration{name: "none", group: plain}, configuration{name: "function", group: plain, function: true},
		configuration{name: "webhook", group: guarded}, configuration{name: "together", group: guarded, function: true, managed: true})
	for _, c := range s.configurations {
		s.eventually(ctx, c.name+" to settle", patience, func(ctx context.Context) error { return s.arrives(ctx, c, 1) })
	}
	s.rest(ctx)
	s.change(ctx, 50)
	s.rest(ctx)
	for _, c := range s.configurations {
		if c.function {
			s.once(ctx, c)
		}
	}
}

// TestGateAtRest: the same with the gate alone: the webhook is not reachable, and requests go on without it.
func TestGateAtRest(t *testing.T) {
	ctx, s := start(t, story.Options{Webhook: true}, func(ctx context.Context, s *suite) {
		s.Process("kausality-webhook").Stop()
		hooks := s.admin.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"})
		configuration, err := hooks.Get(ctx, v1alpha1.WebhookConfigurationName, metav1.GetOptions{})
		require.NoError(t, err)
		entries := configuration.Object["webhooks"].([]any)
		for _, e := range entries {
			e.(map[string]any)["failurePolicy"] = "Ignore"
		}
		_, err = hooks.Update(ctx, configuration, metav1.UpdateOptions{})
		require.NoError(t, err)
		_, err = s.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Patch(ctx, "default", types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"enforce"}}}`, v1alpha1.AnnotationKeyMode), metav1.PatchOptions{})
		require.NoError(t, err)
	}, configuration{name: "gate", group: guarded, managed: true})
	s.eventually(ctx, "it to settle", patience, func(ctx context.Context) error { return s.arrives(ctx, s.configurations[0], 1) })
	s.rest(ctx)
	s.change(ctx, 50) // of the objects alone: no webhook has opened the gate
	s.rest(ctx)
	all, err := s.Cloud.Databases().List(ctx)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.EqualValues(t, 1, all[0].Size)
}

// once: an approval of a change of the composed Secret is of that change, once.
func (s *suite) once(ctx context.Context, c configuration) {
	s.Helper()
	token := func(ctx context.Context) (string, *unstructured.Unstructured, error) {
		secrets := s.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("default")
		o, err := secrets.Get(ctx, "login-of-"+c.name, metav1.GetOptions{})
		if err != nil {
			return "", nil, err
		}
		value, _, _ := unstructured.NestedString(o.Object, "data", "token")
		return value, o, nil
	}
	held := func(ctx context.Context) error {
		_, o, err := token(ctx)
		if err == nil && o.GetAnnotations()[v1alpha1.AnnotationKeyHeld] == "" {
			err = errors.New("nothing is held")
		}
		return err
	}
	before, _, err := token(ctx)
	require.NoError(s, err)
	s.apply(ctx, c.composition("two"))
	s.eventually(ctx, "the other token to be held in "+c.name, patience, held)
	_, o, err := token(ctx)
	require.NoError(s, err)
	var h v1alpha1.Held
	require.NoError(s, json.Unmarshal([]byte(o.GetAnnotations()[v1alpha1.AnnotationKeyHeld]), &h))
	assert.NotContains(s, o.GetAnnotations()[v1alpha1.AnnotationKeyHeld], before)
	key, value, _ := strings.Cut(h.Approve[strings.LastIndex(h.Approve, "kausality.io/"):], "=")
	alice, err := s.As(story.Alice)
	require.NoError(s, err)
	_, err = alice.Resource(c.definition().Resource()).Namespace("default").Patch(ctx, "rest-"+c.name, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value), metav1.PatchOptions{FieldManager: "kubectl"})
	require.NoError(s, err)
	s.eventually(ctx, "the approved token to arrive in "+c.name, patience, func(ctx context.Context) error {
		now, _, err := token(ctx)
		if err == nil && now == before {
			err = errors.New("it is the one before")
		}
		return err
	})
	after, _, err := token(ctx)
	require.NoError(s, err)
	s.apply(ctx, c.composition("one"))
	s.eventually(ctx, "the way back to be held in "+c.name, patience, held)
	now, _, err := token(ctx)
	require.NoError(s, err)
	require.Equal(s, after, now, "the approval was of the other change")
}
