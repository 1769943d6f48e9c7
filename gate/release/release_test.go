package release

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var (
	databases    = schema.GroupVersionResource{Group: "cloud.example.org", Version: "v1", Resource: "databases"}
	applications = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
	crds         = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// crd of a kind that the gate acts on.
const databaseCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: databases.cloud.example.org}
spec:
  group: cloud.example.org
  names: {kind: Database, plural: databases, categories: [managed]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {properties: {spec: {properties: {managementPolicies: {type: array}}}}}}`

// maskedDatabase has the mask of a closed gate.
const maskedDatabase = `
apiVersion: cloud.example.org/v1
kind: Database
metadata:
  name: orders
  namespace: shop
  uid: u1
  annotations:
    kausality.io/management-policies: '["*"]'
    kausality.io/gate: '{"state":"closed"}'
spec: {managementPolicies: [Observe], forProvider: {size: 20}}
status: {atProvider: {size: 10}}`

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &o.Object))
	return o
}

// edited is the masked database after f.
func edited(t *testing.T, f func(*unstructured.Unstructured)) *unstructured.Unstructured {
	t.Helper()
	o := parse(t, maskedDatabase)
	f(o)
	return o
}

func clientOf(t *testing.T, objects ...*unstructured.Unstructured) *fake.FakeDynamicClient {
	t.Helper()
	all := []runtime.Object{parse(t, databaseCRD)}
	for _, o := range objects {
		all = append(all, o)
	}
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		databases: "DatabaseList", applications: "ApplicationList", crds: "CustomResourceDefinitionList",
	}, all...)
}

// TestFind: what is masked and selected is found, with the external drift that its
// provider will revert (KR-08-17). What is being deleted is left as it is (KR-08-14).
func TestFind(t *testing.T) {
	deleting := edited(t, func(o *unstructured.Unstructured) {
		now := metav1.NewTime(time.Now())
		o.SetName("leaving")
		o.SetDeletionTimestamp(&now)
	})
	unmasked := edited(t, func(o *unstructured.Unstructured) { o.SetName("free"); o.SetAnnotations(nil) })
	all := []*unstructured.Unstructured{parse(t, maskedDatabase), deleting, unmasked}
	for name, tc := range map[string]struct {
		reason string
		names  []string
		want   []string
		fails  error
	}{
		"All":       {reason: "no names are all", want: []string{"databases.cloud.example.org/shop/orders"}},
		"ByName":    {reason: "it is named", names: []string{"databases.cloud.example.org/shop/orders"}, want: []string{"databases.cloud.example.org/shop/orders"}},
		"NotMasked": {reason: "there is nothing to restore", names: []string{"databases.cloud.example.org/shop/free"}, fails: errNotMasked},
		"Deleting":  {reason: "its policies stay", names: []string{"databases.cloud.example.org/shop/leaving"}, fails: errNotMasked},
	} {
		t.Run(name, func(t *testing.T) {
			found, unread, err := Options{Names: tc.names}.find(t.Context(), clientOf(t, all...))
			require.ErrorIs(t, err, tc.fails, tc.reason)
			assert.Zero(t, unread)
			var got []string
			for _, m := range found {
				got = append(got, m.String())
				assert.Equal(t, []string{"spec.forProvider.size: 10 → 20"}, m.lines())
				assert.Equal(t, []string{"*"}, m.author)
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

// TestFindFails: a kind that cannot be listed is an error, not an empty result; one
// that is gone has no objects.
func TestFindFails(t *testing.T) {
	boom := errors.New("boom")
	for name, tc := range map[string]struct{ err, want error }{
		"Error": {err: boom, want: boom},
		"Gone":  {err: kerrors.NewNotFound(databases.GroupResource(), "")},
	} {
		t.Run(name, func(t *testing.T) {
			c := clientOf(t, parse(t, maskedDatabase))
			c.PrependReactor("list", "databases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err })
			found, _, err := Options{}.find(t.Context(), c)
			require.ErrorIs(t, err, tc.want)
			assert.Empty(t, found)
		})
	}
}

// TestFindPartial leaves out a kind that the user may not list, and names it; without
// Partial that is an error, and nothing is found (KR-12-26).
func TestFindPartial(t *testing.T) {
	forbidden := kerrors.NewForbidden(databases.GroupResource(), "", errors.New("no"))
	c := clientOf(t, parse(t, maskedDatabase))
	c.PrependReactor("list", "databases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
	o := Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, Partial: true}
	_, _, err := o.find(t.Context(), c)
	left := &LeftOutError{}
	require.ErrorAs(t, err, &left)
	assert.Equal(t, []string{"databases.cloud.example.org"}, left.Kinds)
	o.Partial = false
	_, _, err = o.find(t.Context(), c)
	assert.True(t, kerrors.IsForbidden(err), "%v", err)
}

// TestRestore: the author's policies are written together with the removal of the
// gate's annotations. A conflict is read and written again, a few times (KR-08-17).
func TestRestore(t *testing.T) {
	conflict := kerrors.NewConflict(databases.GroupResource(), "orders", errors.New("it changed"))
	forbidden := kerrors.NewForbidden(databases.GroupResource(), "orders", errors.New("no"))
	gone := kerrors.NewNotFound(databases.GroupResource(), "orders")
	for name, tc := range map[string]struct {
		reason string
		stored *unstructured.Unstructured
		// patches are the errors of the first writes.
		patches  []error
		restored bool
		fails    string
	}{
		"Once":      {reason: "nothing is in the way", stored: parse(t, maskedDatabase), restored: true},
		"Conflicts": {reason: "it is read again", stored: parse(t, maskedDatabase), patches: []error{conflict, conflict}, restored: true},
		"Busy": {reason: "it does not end", stored: parse(t, maskedDatabase),
			patches: []error{conflict, conflict, conflict, conflict, conflict}, fails: "it changes all the time"},
		"Refused": {reason: "another error is final", stored: parse(t, maskedDatabase), patches: []error{forbidden},
			fails: "cannot restore databases.cloud.example.org/shop/orders"},
		"GoneWrite":  {reason: "it is deleted in the meantime", stored: parse(t, maskedDatabase), patches: []error{gone}},
		"NotThere":   {reason: "it is deleted before"},
		"NoMaskLeft": {reason: "another process restored it", stored: edited(t, func(o *unstructured.Unstructured) { o.SetAnnotations(nil) })},
	} {
		t.Run(name, func(t *testing.T) {
			c := clientOf(t)
			if tc.stored != nil {
				c = clientOf(t, tc.stored)
			}
			writes := 0
			c.PrependReactor("patch", "databases", func(clienttesting.Action) (bool, runtime.Object, error) {
				if writes++; writes <= len(tc.patches) {
					return true, nil, tc.patches[writes-1]
				}
				return false, nil, nil
			})
			m, ok := maskOfManaged(databases, parse(t, maskedDatabase))
			require.True(t, ok)
			r := restorer{client: c}
			restored, err := r.restore(t.Context(), m)
			assert.Equal(t, tc.restored, restored, tc.reason)
			if tc.fails == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.fails)
			}
			if !tc.restored {
				return
			}
			o, err := c.Resource(databases).Namespace("shop").Get(t.Context(), "orders", metav1.GetOptions{})
			require.NoError(t, err)
			policies, _, err := unstructured.NestedStringSlice(o.Object, "spec", "managementPolicies")
			require.NoError(t, err)
			assert.Equal(t, []string{"*"}, policies)
			assert.NotContains(t, o.GetAnnotations(), v1alpha1.AnnotationKeyManagementPolicies)
			assert.NotContains(t, o.GetAnnotations(), v1alpha1.AnnotationKeyGate)
		})
	}
}

// TestRestoreMaskedAgain: a webhook that masks the object in the same write is an
// error, since nothing is restored.
func TestRestoreMaskedAgain(t *testing.T) {
	c := clientOf(t, parse(t, maskedDatabase))
	c.PrependReactor("patch", "databases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, parse(t, maskedDatabase), nil })
	m, _ := maskOfManaged(databases, parse(t, maskedDatabase))
	r := restorer{client: c}
	restored, err := r.restore(t.Context(), m)
	assert.False(t, restored)
	assert.ErrorContains(t, err, "the webhook masks it again")
}

// TestResult: the counts as a user reads them, and no output without a writer.
func TestResult(t *testing.T) {
	assert.Equal(t, "2 masked, 1 with pending external drift, 2 restored", Result{Masked: 2, Pending: 1, Restored: 2}.String())
	assert.Contains(t, Result{Unread: 3}.String(), "3 kinds that the gate has no access to were not read")
	out := &bytes.Buffer{}
	Options{Out: out}.printf("%d", 1)
	Options{}.printf("%d", 2)
	assert.Equal(t, "1", out.String())
}
