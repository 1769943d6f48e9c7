package apiserver

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/decider"
)

// made returns the plugin of a Kausality by a configuration, as a server makes it.
func made(t *testing.T, k *Kausality, configuration string) *plugin {
	t.Helper()
	plugins := admission.NewPlugins()
	k.Register(plugins)
	_, err := plugins.InitPlugin(PluginName, strings.NewReader(configuration), admission.PluginInitializers{})
	require.ErrorContains(t, err, "needs an authorizer")
	made, err := plugins.InitPlugin(PluginName, strings.NewReader(configuration), admission.PluginInitializers{denying{}})
	require.NoError(t, err)
	out, ok := made.(*plugin)
	require.True(t, ok)
	return out
}

// denying is what a server gives its plugins.
type denying struct{}

func (denying) Initialize(p admission.Interface) {
	if p, ok := p.(initializer.WantsAuthorizer); ok {
		p.SetAuthorizer(authorizerfactory.NewAlwaysDenyAuthorizer())
	}
}

const (
	enforcing = `{apiVersion: apiserver.kausality.io/v1alpha1, kind: KausalityConfiguration, resources: [things.example.org], defaultMode: enforce,
		objectSelector: {matchExpressions: [{key: example.org/off, operator: DoesNotExist}]}}`
	logging = `{apiVersion: apiserver.kausality.io/v1alpha1, kind: KausalityConfiguration, resources: [things.example.org]}`
)

// warnings of a request.
type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

// creation of a thing.
func creation(namespace, resource, subresource string, labels map[string]string, by string) admission.Attributes {
	gv := schema.GroupVersion{Group: "example.org", Version: "v1"}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
	u.SetGroupVersionKind(gv.WithKind("Thing"))
	u.SetName("x")
	u.SetNamespace(namespace)
	u.SetLabels(labels)
	operation, old, options := admission.Create, runtime.Object(nil), runtime.Object(&metav1.CreateOptions{})
	if subresource != "" {
		operation, old, options = admission.Update, u.DeepCopy(), &metav1.UpdateOptions{}
	}
	return admission.NewAttributesRecord(u, old, gv.WithKind("Thing"), namespace, "x", gv.WithResource(resource), subresource, operation, options, false,
		&user.DefaultInfo{Name: by})
}

// TestUnready: while the kinds and policies are not read, nothing that is guarded passes silently.
func TestUnready(t *testing.T) {
	for name, tc := range map[string]struct {
		reason        string
		configuration string
		request       admission.Attributes
		code          int32
		warns         bool
	}{
		"Enforce":  {"the client tries again", enforcing, creation("default", "things", "", nil, "hans"), http.StatusInternalServerError, false},
		"Log":      {"the mode is log", logging, creation("default", "things", "", nil, "hans"), 0, true},
		"Server":   {"the server could not start otherwise", enforcing, creation("default", "things", "", nil, user.APIServerUser), 0, false},
		"Other":    {"the resource is not guarded", enforcing, creation("default", "others", "", nil, "hans"), 0, false},
		"Labelled": {"the object is not guarded", enforcing, creation("default", "things", "", map[string]string{"example.org/off": ""}, "hans"), 0, false},
		"Never":    {"Namespace kube-system never is", enforcing, creation("kube-system", "things", "", nil, "hans"), 0, false},
		"Status":   {"a status is never refused", enforcing, creation("default", "things", "status", nil, "hans"), 0, false},
		"Exec":     {"other subresources are not decided about", enforcing, creation("default", "things", "exec", nil, "hans"), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, w := made(t, New(), tc.configuration), &warnings{}
			err := p.Admit(warning.WithWarningRecorder(t.Context(), w), tc.request, nil)
			assert.Equal(t, tc.warns, len(*w) == 1, "%v: %s", *w, tc.reason)
			if tc.code == 0 {
				assert.NoError(t, err, tc.reason)
				return
			}
			var status apierrors.APIStatus
			require.ErrorAs(t, err, &status, tc.reason)
			assert.Equal(t, tc.code, status.Status().Code)
			assert.Contains(t, status.Status().Message, `admission plugin "Kausality" denied the request`)
			assert.Contains(t, status.Status().Message, "are not read")
		})
	}
}

// broken is a request whose object cannot be read.
type broken struct{ admission.Attributes }

func (broken) GetObject() runtime.Object { panic("broken") }

// TestPanics: a panic in the plugin itself is answered as the mode requires, and the write of a status passes.
func TestPanics(t *testing.T) {
	p := made(t, New(), enforcing)
	err := p.Admit(t.Context(), broken{creation("default", "things", "", nil, "hans")}, nil)
	assert.True(t, apierrors.IsInternalError(err), "%v", err)
	assert.ErrorContains(t, err, "panic: broken")
	assert.Error(t, p.Validate(t.Context(), broken{creation("default", "things", "", nil, "hans")}, nil))
	assert.NoError(t, p.Admit(t.Context(), broken{creation("default", "things", "status", nil, "hans")}, nil))
	w := &warnings{}
	assert.NoError(t, made(t, New(), logging).Admit(warning.WithWarningRecorder(t.Context(), w), broken{creation("default", "things", "", nil, "hans")}, nil))
	assert.Len(t, *w, 1)
}

// TestOneConfiguration: the servers that one is composed of share a Kausality, with one configuration.
func TestOneConfiguration(t *testing.T) {
	k := New()
	made(t, k, enforcing)
	made(t, k, enforcing)
	other, err := ReadConfiguration(strings.NewReader(logging))
	require.NoError(t, err)
	assert.ErrorContains(t, k.configure(other), "twice")
}

// TestClusters: each logical cluster starts with its first request, and their number is bounded.
func TestClusters(t *testing.T) {
	k := New()
	type key struct{}
	k.Clusters = &Clusters{Of: func(ctx context.Context) string { name, _ := ctx.Value(key{}).(string); return name }, Max: 2}
	var started []string
	k.start = func(name string) (*running, error) {
		started = append(started, name)
		return newRunning(decider.Options{Process: cluster.Process{Config: &rest.Config{Host: "127.0.0.1:1"}}}, nil)
	}
	p := made(t, k, enforcing)
	in := func(name string) error {
		return p.Admit(context.WithValue(t.Context(), key{}, name), creation("", "things", "", nil, "hans"), nil)
	}
	for _, name := range []string{"a", "b", "a", "b"} {
		assert.ErrorContains(t, in(name), "are not read")
	}
	assert.ErrorContains(t, in("c"), "there are 2 clusters")
	assert.Equal(t, []string{"a", "b"}, started)
}
