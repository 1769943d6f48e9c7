package onepass

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOutline: the inner names of managedFields are left out, and nothing else.
func TestOutline(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"Spec": {
			in:   `{"metadata":{"name":"a","managedFields":[{"manager":"m","fieldsV1":{"f:spec":{".":{},"f:data":{".":{},"f:x":{}}}}}]}}`,
			want: `{"metadata":{"name":"a","managedFields":[{"manager":"m","fieldsV1":{"f:spec":{".":{},"f:data":{}}}}]}}`,
		},
		"Conditions": {
			in:   `{"metadata":{"managedFields":[{"fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{"f:type":{}}},"f:n":{"f:m":{"f:o":{}}}}}}]}}`,
			want: `{"metadata":{"managedFields":[{"fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{}},"f:n":{"f:m":{}}}}}]}}`,
		},
		"Elsewhere": {in: `{"spec":{"managedFields":[{"fieldsV1":{"a":{"b":{"c":1}}}}],"metadata":{"managedFields":[{"fieldsV1":{"a":{"b":{"c":1}}}}]}}}`},
		"OtherKind": {in: `{"metadata":{"annotations":{"managedFields":"x"},"managedFields":{"fieldsV1":{"a":{"b":{"c":1}}}}}}`},
		"Shapes":    {in: `{"metadata":{"managedFields":[1,null,[2],{},{"fieldsV1":null},{"fieldsV1":{"f:spec":"x"}}]}}`},
		"Twice":     {in: `{"metadata":{"managedFields":[]},"metadata":null}`},
		"None":      {in: `{"metadata":[{"managedFields":[{"fieldsV1":{"a":{"b":{"c":1}}}}]}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			want := tc.want
			if want == "" {
				want = tc.in
			}
			whole, err := Object([]byte(want))
			require.NoError(t, err)
			got, err := Outline([]byte(tc.in))
			require.NoError(t, err)
			require.Equal(t, whole, got)
		})
	}
}

// FuzzOutline: what is outside the metadata is as Object reads it, and bytes that are no object are refused by both.
func FuzzOutline(f *testing.F) {
	for _, d := range documents {
		f.Add([]byte(d))
	}
	f.Add([]byte(`{"metadata":{"managedFields":[{"fieldsV1":{"f:spec":{"f:data":{"f:x":{}}}}}]},"spec":{"a":1}}`))
	for _, d := range []string{`[`, `[{"fieldsV1":{"f:spec":{"f:a":`, `[}]`} {
		f.Add([]byte(`{"metadata":{"managedFields":` + d))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		whole, err := Object(raw)
		got, failed := Outline(raw)
		if err == nil {
			require.NoError(t, failed)
			delete(whole, "metadata")
			delete(got, "metadata")
			require.Equal(t, whole, got)
		}
	})
}
