package apiserver

import (
	"encoding/json"
	"testing"

	evanphx "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestApply: the operations that the webhook answers with change an object as the API server would by them.
func TestApply(t *testing.T) {
	const object = `{"metadata":{"name":"x","annotations":{"a/b":"1","c~d":"2"},"managedFields":[{"manager":"m","fieldsV1":{"f:spec":{}}}]},
		"spec":{"list":[{"n":1},{"n":2}]},"status":{"conditions":[{"type":"Synced"},{"type":"Kausality"}]}}`
	for name, ops := range map[string][]jsonpatch.Operation{
		"None":        nil,
		"Annotation":  {jsonpatch.NewOperation("add", "/metadata/annotations/kausality.io~1trace", "[]")},
		"Replaced":    {jsonpatch.NewOperation("add", "/metadata/annotations/a~1b", "2")},
		"Removed":     {jsonpatch.NewOperation("remove", "/metadata/annotations/c~0d", nil)},
		"Policies":    {jsonpatch.NewOperation("add", "/spec/managementPolicies", []string{"Observe"})},
		"Owners":      {jsonpatch.NewOperation("add", "/metadata/ownerReferences", []any{map[string]any{"name": "y", "controller": true}})},
		"Field":       {jsonpatch.NewOperation("add", "/spec", map[string]any{"a": int64(1)}), jsonpatch.NewOperation("add", "/spec/b", nil)},
		"Managed":     {jsonpatch.NewOperation("replace", "/metadata/managedFields/0/fieldsV1", json.RawMessage(`{"f:data":{}}`))},
		"Condition":   {jsonpatch.NewOperation("remove", "/status/conditions/1", nil)},
		"Annotations": {jsonpatch.NewOperation("add", "/metadata/annotations", map[string]any{}), jsonpatch.NewOperation("add", "/metadata/annotations/x", "y")},
	} {
		t.Run(name, func(t *testing.T) {
			var content, want map[string]any
			require.NoError(t, json.Unmarshal([]byte(object), &content))
			for _, op := range ops {
				require.NoError(t, apply(content, op))
			}
			raw, err := json.Marshal(ops)
			require.NoError(t, err)
			if ops == nil {
				raw = []byte("[]")
			}
			patch, err := evanphx.DecodePatch(raw)
			require.NoError(t, err)
			patched, err := patch.Apply([]byte(object))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(patched, &want))
			got, err := json.Marshal(content)
			require.NoError(t, err)
			assert.JSONEq(t, string(patched), string(got))
			assert.NotPanics(t, func() { runtime.DeepCopyJSON(withoutFloats(content)) }, "values are those of unstructured objects")
		})
	}
	for name, op := range map[string]jsonpatch.Operation{
		"NoField": jsonpatch.NewOperation("add", "/spec/none/x", "y"), "NoItem": jsonpatch.NewOperation("remove", "/status/conditions/7", nil),
		"BelowText": jsonpatch.NewOperation("add", "/metadata/name/x", "y"), "NoIndex": jsonpatch.NewOperation("replace", "/spec/list/x/n", "y"),
	} {
		t.Run(name, func(t *testing.T) {
			var content map[string]any
			require.NoError(t, json.Unmarshal([]byte(object), &content))
			assert.ErrorContains(t, apply(content, op), op.Path)
		})
	}
}

// withoutFloats of encoding/json, which unstructured objects have in another form.
func withoutFloats(content map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range content {
		if _, is := v.(float64); !is {
			out[k] = v
		}
	}
	return out
}

// TestMemory: what a request leaves is found changed where its desired state is, whatever the order of fields, and not where its metadata or status is.
func TestMemory(t *testing.T) {
	read := func(text string) (out map[string]any) {
		require.NoError(t, json.Unmarshal([]byte(text), &out))
		return out
	}
	m := newMemory()
	was := m.sum(read(`{"a":{"x":1,"y":[1,2,{"z":null}]},"b":"c"}`))
	assert.Equal(t, was, m.sum(read(`{"b":"c","a":{"y":[1,2,{"z":null}],"x":1}}`)))
	for _, other := range []string{
		`{"a":{"x":1,"y":[2,1,{"z":null}]},"b":"c"}`, `{"a":{"x":1,"y":[1,2,{}]},"b":"c"}`, `{"a":{"x":"1","y":[1,2,{"z":null}]},"b":"c"}`,
		`{"a":{"y":1,"x":[1,2,{"z":null}]},"b":"c"}`, `{"b":{"x":1,"y":[1,2,{"z":null}]},"a":"c"}`, `{"a":{"x":1,"y":[1,2,{"z":null}]},"b":"c","d":false}`,
	} {
		assert.NotEqual(t, was, m.sum(read(other)), other)
	}
}
