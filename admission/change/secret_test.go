package change

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// token is the secret value of these tests: no output has it.
const token = "aHVudGVyMg=="

// parsed object in JSON, with the token for T.
func parsed(t *testing.T, text string) object {
	t.Helper()
	var out object
	if err := json.Unmarshal([]byte(strings.ReplaceAll(text, "T", token)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

const secretJSON = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"token":"T"},"stringData":{"a":"T"},"type":"Opaque"}`

// TestSecretValues: wherever an object has the values of a Secret, they are in no field of a report, no redacted object
// and no id (KR-13-26, KR-13-27).
func TestSecretValues(t *testing.T) {
	manifest := func(m string) string { return `{"kind":"Object","spec":{"forProvider":{"manifest":` + m + `}}}` }
	cases := map[string]struct {
		reason   string
		old, new string
		fields   SecretFields
	}{
		"Secret": {reason: "the object is a Secret", old: `{"apiVersion":"v1","kind":"Secret","data":{"token":"x"}}`, new: secretJSON},
		"Manifest": {reason: "of provider-kubernetes", old: manifest(`{"apiVersion":"v1","kind":"Secret","data":{"token":"x"}}`),
			new: manifest(secretJSON)},
		"ManifestAdded": {reason: "the value of the change has a Secret", old: `{"kind":"Object","spec":{"forProvider":{}}}`,
			new: manifest(secretJSON)},
		"KindChanged": {reason: "either side is a Secret", old: manifest(`{"apiVersion":"v1","kind":"ConfigMap","data":{"token":"x"}}`),
			new: manifest(secretJSON)},
		"DataGone": {reason: "all values go", old: manifest(secretJSON), new: manifest(`{}`)},
		"DataNull": {reason: "a null is absent", old: manifest(`{"kind":"Secret","data":{"token":"x"}}`),
			new: manifest(`{"apiVersion":"v1","kind":"Secret","data":null,"stringData":{"a":"T"}}`)},
		"NoVersion": {reason: "a template without apiVersion", old: manifest(`{}`), new: manifest(`{"kind":"Secret","data":{"a":"T"}}`)},
		"List": {reason: "a list with another length", old: manifest(`{"kind":"List","items":[]}`),
			new: manifest(`{"apiVersion":"v1","kind":"List","items":[{"kind":"ConfigMap","data":{"a":"b"}},` + secretJSON + `]}`)},
		"ListItem": {reason: "an item", old: manifest(`{"kind":"List","items":[{"kind":"Secret","data":{"token":"x"}}]}`),
			new: manifest(`{"apiVersion":"v1","kind":"List","items":[{"kind":"Secret","data":{"token":"T"}}]}`)},
		"SecretList": {reason: "items without a kind", old: manifest(`{"kind":"SecretList","items":[]}`),
			new: manifest(`{"kind":"SecretList","items":[{"data":{"token":"T"}}]}`)},
		"Template": {reason: "nested in a template", old: `{"spec":{"template":{"objects":[]}}}`,
			new: `{"spec":{"template":{"objects":[` + secretJSON + `]}}}`},
		"YAML": {reason: "a manifest in a text", old: `{"data":{"m":"x"}}`,
			new: `{"data":{"m":"apiVersion: v1\nkind: Secret\nstringData: {token: T}"}}`},
		"JSON": {reason: "a manifest in a text", old: `{"data":{"m":"x"}}`,
			new: `{"data":{"m":"{\"kind\":\"Secret\",\"data\":{\"token\":\"T\"}}"}}`},
		"Escaped": {reason: "JSON in JSON", old: `{"data":{"m":"x"}}`,
			new: `{"data":{"m":"{\"x\":\"{\\\"kind\\\": \\\"Secret\\\", \\\"d\\\":\\\"T\\\"}\"}"}}`},
		"NestedLastApplied": {reason: "the copy that kubectl keeps of a manifest",
			old: manifest(`{"kind":"Secret","metadata":{"annotations":{}}}`),
			new: manifest(`{"kind":"Secret","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"a\":\"T\"}}"}}}`)},
		"Named": {reason: "a field that a policy names", old: `{"spec":{"password":"x"}}`,
			new: `{"spec":{"password":"T"}}`, fields: "spec.password"},
		"Below": {reason: "below a field that is named", old: `{"spec":{"auth":{}}}`,
			new: `{"spec":{"auth":{"a":{"b":"T"}}}}`, fields: "spec.auth"},
		"Above": {reason: "the value of the change has the field", old: `{"spec":{}}`,
			new: `{"spec":{"auth":{"user":"u","password":"T"}}}`, fields: "spec.auth.password"},
		"Wild": {reason: "any item", old: `{"spec":{"users":[]}}`,
			new: `{"spec":{"users":[{"name":"u","password":"T"}]}}`, fields: "spec.users[*].password"},
		"Observed": {reason: "where the provider reports it", old: `{"spec":{}}`,
			new: `{"spec":{},"status":{"atProvider":{"password":"T"}}}`, fields: "spec.forProvider.password"},
		"LastApplied": {reason: "the copy that kubectl keeps", old: `{"spec":{"password":"x"}}`, fields: "spec.password",
			new: `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"spec\":{\"password\":\"T\"}}"}},"spec":{"password":"T"}}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			old, next := parsed(t, tc.old), parsed(t, tc.new)
			before := parsed(t, tc.new)
			var all []byte
			for _, pair := range [][2]object{{old, next}, {next, old}} {
				changes := tc.fields.Redact(Diff(pair[0], pair[1], false))
				raw, err := json.Marshal(Fields(changes, 99))
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, raw...)
			}
			raw, err := json.Marshal(tc.fields.RedactObject(next))
			if err != nil {
				t.Fatal(err)
			}
			if all = append(all, raw...); strings.Contains(string(all), token) {
				t.Errorf("%s: a value leaks: %s", tc.reason, all)
			}
			if diff := cmp.Diff(before, next); diff != "" {
				t.Errorf("the object is modified: %s", diff)
			}
			other := parsed(t, strings.ReplaceAll(tc.new, "T", "b3RoZXI="))
			if a, b := idOf(tc.fields, old, next), idOf(tc.fields, old, other); a != b {
				t.Errorf("%s: the id depends on the value", tc.reason)
			}
		})
	}
}

func idOf(f SecretFields, old, new object) string {
	return DigestOf(v1alpha1.RelationControllerChild, "UPDATE", Identity{Name: "p"}, Identity{Name: "c"}, f.Redact(Diff(old, new, false))).ID()
}

// TestNotSecret: what is no secret value is shown as it is, and part of the id.
func TestNotSecret(t *testing.T) {
	for name, text := range map[string]string{
		"OtherGroup":  `{"apiVersion":"secretsmanager.aws.upbound.io/v1beta1","kind":"Secret","spec":{"forProvider":{"name":"T"}},"data":{"a":"T"}}`,
		"SecretStore": `{"data":{"m":"kind: SecretStore T"}}`,
		"Reference":   `{"spec":{"passwordSecretRef":{"name":"T","key":"T"}}}`,
		"ConfigMap":   `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"T"}}`,
		"Type":        `{"apiVersion":"v1","kind":"Secret","type":"T"}`,
	} {
		t.Run(name, func(t *testing.T) {
			o := parsed(t, text)
			shown := SecretFields("").RedactObject(o)
			if diff := cmp.Diff(o, shown); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
			raw, err := json.Marshal(Fields(Diff(object{}, o, false), 99))
			if err != nil || !strings.Contains(string(raw), token) {
				t.Errorf("the value is not shown: %s, %v", raw, err)
			}
			if idOf("", object{}, o) == idOf("", object{}, parsed(t, strings.ReplaceAll(text, "T", "x"))) {
				t.Error("the id does not depend on the value")
			}
		})
	}
	mixed := parsed(t, `{"kind":"Object","spec":{"forProvider":{"manifest":`+secretJSON+`,"mode":"a"}}}`)
	other := parsed(t, `{"kind":"Object","spec":{"forProvider":{"manifest":`+secretJSON+`,"mode":"b"}}}`)
	if idOf("", object{}, mixed) == idOf("", object{}, other) {
		t.Error("fields beside a secret value are part of the id")
	}
}

// TestSchemaSecrets: fields of format password are secret, wherever a schema has them (KR-13-26).
func TestSchemaSecrets(t *testing.T) {
	schema := parsed(t, `{"properties":{"spec":{"properties":{
		"password":{"type":"string","format":"password"}, "size":{"type":"integer","format":"int64"},
		"users":{"type":"array","items":{"properties":{"token":{"type":"string","format":"password"}}}},
		"keys":{"additionalProperties":{"type":"string","format":"password"}}, "a.b":{"format":"password"}}}}}`)
	want := SecretFieldsOf("spec.password", "spec.users[*].token", "spec.keys[*]", "spec[a.b]")
	if got := SchemaSecrets(schema); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := SchemaSecrets(nil); got != "" {
		t.Errorf("got %q, want none", got)
	}
	more := SecretFieldsOf("spec.password", "spec.users[*].token", "spec.keys[*]", "spec[a.b]", "x")
	if got := want.And("").And("spec.password").And(SecretFieldsOf("x", "not[a")); got != more {
		t.Errorf("got %q", got)
	}
}
