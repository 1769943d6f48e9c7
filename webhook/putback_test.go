package webhook

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/internal/decider"
	"github.com/kausality-io/function-kausality/webhook/review"
)

// patched is an object after the patches of a decision.
func patched(t *testing.T, req *admission.Request, d admission.Decision) map[string]any {
	t.Helper()
	ops, err := json.Marshal(review.Patches(req, d))
	require.NoError(t, err)
	p, err := jsonpatch.DecodePatch(ops)
	require.NoError(t, err)
	raw, err := json.Marshal(req.Object.Object)
	require.NoError(t, err)
	raw, err = p.Apply(raw)
	require.NoError(t, err, "%s", ops)
	var out map[string]any
	require.NoError(t, json.Unmarshal(raw, &out))
	return out
}

func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal([]byte(text), &o.Object))
	return o
}

// TestUnchanged: of a write by kro that is held nothing is stored, who owns the fields included (KR-18-06).
func TestUnchanged(t *testing.T) {
	was := objectOf(t, `{"apiVersion":"v1","kind":"ConfigMap","data":{"tier":"silver"},"metadata":{"name":"db","labels":{"a":"b"},
		"managedFields":[{"manager":"kro.run/applyset","operation":"Apply","fieldsV1":{"f:data":{"f:tier":{}}}}]}}`)
	is := objectOf(t, `{"apiVersion":"v1","kind":"ConfigMap","data":{"tier":"gold"},"binaryData":{"x":"eA=="},"metadata":{"name":"db","labels":{"a":"c"},
		"managedFields":[{"manager":"kro.run/applyset","operation":"Apply","fieldsV1":{"f:data":{"f:tier":{}},"f:binaryData":{"f:x":{}}}}]}}`)
	req := &admission.Request{Operation: admission.Update, Object: is, OldObject: was, FieldManager: "kro.run/applyset"}
	d := admission.Decision{Answer: admission.Answer{Allowed: true, Unchanged: true}, Rest: was,
		Held: &admission.Decision{Answer: admission.Answer{Reason: outcome.ReasonDrift, Digest: "0123456789abcdef"}}}
	assert.Equal(t, was.Object, patched(t, req, d))
	assert.Equal(t, "0123456789abcdef", decider.Audit(req, d)["held"][:16])
}

// TestOwned: a field that is put back while other changes pass is still its applier's, so that its removal can be approved (KR-05-62).
func TestOwned(t *testing.T) {
	const managed = `"managedFields":[{"manager":"kubectl","operation":"Apply","fieldsV1":{"f:data":{"f:z":{}}}},` +
		`{"manager":"applier","operation":"Apply","fieldsV1":`
	was := objectOf(t, `{"data":{"tier":"silver","a":"1","b":"1"},"metadata":{`+managed+
		`{"f:data":{"f:tier":{},"f:a":{},"f:b":{}},"f:metadata":{"f:labels":{"f:x":{}}}}}]}}`)
	is := objectOf(t, `{"data":{"a":"2"},"metadata":{`+managed+`{"f:data":{"f:a":{}}}}]}}`)
	rest := objectOf(t, `{"data":{"tier":"silver","a":"2"},"metadata":{`+managed+`{"f:data":{"f:a":{}}}}]}}`)
	req := &admission.Request{Operation: admission.Update, Object: is, OldObject: was, FieldManager: "applier"}
	got := &unstructured.Unstructured{Object: patched(t, req, admission.Decision{Answer: admission.Answer{Allowed: true}, Rest: rest})}
	assert.Equal(t, rest.Object["data"], got.Object["data"])
	assert.JSONEq(t, `{"f:data":{"f:tier":{},"f:a":{}}}`, string(got.GetManagedFields()[1].FieldsV1.Raw))
	assert.JSONEq(t, `{"f:data":{"f:z":{}}}`, string(got.GetManagedFields()[0].FieldsV1.Raw))

	// Nothing is patched where nothing is taken away, nor for a manager that applies nothing.
	req.Object = rest
	req.OldObject = rest
	assert.Empty(t, review.Patches(req, admission.Decision{Answer: admission.Answer{Allowed: true}, Rest: rest}))
	req.FieldManager = "other"
	assert.Empty(t, review.Patches(req, admission.Decision{Answer: admission.Answer{Allowed: true}, Rest: rest}))
}
