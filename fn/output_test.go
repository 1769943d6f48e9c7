package fn

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/kausality-io/function-kausality/fn/ssa"
)

var update = flag.Bool("update", false, "write what the function emits to testdata")

// outputStage has resources of all kinds of fields, composed by the pipeline and
// changed by others, one of which the pipeline no longer wants.
func outputStage(t *testing.T, input string) (*stage, desire) {
	t.Helper()
	s := newStage(t, input)
	want := desire{"database": database(1, "tier", "gold", "region", "eu"), "bucket": bucket("eu", map[string]any{"team": "a"}),
		"gone": plain("x"), "thing": plain("x")}
	want["thing"]["metadata"] = map[string]any{"labels": map[string]any{"app": "shop"}, "annotations": map[string]any{"example.org/note": "n"}}
	s.reconcile(want)
	s.update("thing", "somebody", func(o map[string]any) { ssa.Child(o, "spec")["other"] = map[string]any{"a": 1.5, "b": true, "c": nil} })
	s.ready()
	s.now = s.now.Add(time.Minute)
	s.reconcile(want)
	s.live["thing"].Object["spec"] = map[string]any{
		"value": "x", "other": map[string]any{"a": 1.5, "b": true}, "set": []any{"a", "b", "c"},
		"items": []any{map[string]any{"name": "one", "x": "1", "y": "2"}, map[string]any{"name": "two", "x": "1"}, map[string]any{"name": "three"}},
	}
	fields, leaf := func(m map[string]any) map[string]any { return map[string]any{"f:spec": m} }, map[string]any{}
	managed := []any{}
	for _, e := range []struct {
		manager, operation string
		fields             map[string]any
	}{
		{manager: composedManager(), operation: "Apply",
			fields: fields(map[string]any{"f:value": leaf, "f:set": map[string]any{`v:"a"`: leaf, `v:"c"`: leaf}, "f:items": map[string]any{
				`k:{"name":"one"}`: map[string]any{".": leaf, "f:name": leaf, "f:x": leaf}, `k:{"name":"three"}`: map[string]any{".": leaf, "f:name": leaf},
			}})},
		{manager: "somebody", operation: "Update",
			fields: fields(map[string]any{"f:other": map[string]any{".": leaf, "f:a": leaf, "f:b": leaf}, "f:set": map[string]any{`v:"b"`: leaf},
				"f:items": map[string]any{`k:{"name":"one"}`: map[string]any{"f:y": leaf}, `k:{"name":"two"}`: map[string]any{".": leaf, "f:name": leaf, "f:x": leaf}}})},
	} {
		managed = append(managed, map[string]any{"manager": e.manager, "operation": e.operation, "apiVersion": "app.example.org/v1",
			"fieldsType": "FieldsV1", "time": s.now.Format(time.RFC3339), "fieldsV1": e.fields})
	}
	ssa.Child(s.live["thing"].Object, "metadata")["managedFields"] = managed
	want["thing"]["spec"] = map[string]any{"value": "x", "set": []any{"a", "c"}, "items": []any{
		map[string]any{"name": "one", "x": "1"}, map[string]any{"name": "three"},
	}}
	return s, want
}

// What is emitted stays the same to the byte, unless it is meant to change: Crossplane
// applies it on every reconcile, and users approve what it shows (KR-09-13).
func TestOutput(t *testing.T) {
	for name, tc := range map[string]struct {
		input  string
		change func(s *stage, want desire)
	}{
		"steady": {input: enforce, change: func(*stage, desire) {}},
		"held": {input: enforce, change: func(_ *stage, want desire) {
			delete(want, "gone")
			want["new"], want["database"], want["bucket"] = plain("n"), database(7, "tier", "gold"), bucket("us", nil)
			want["thing"]["spec"] = map[string]any{"value": "<y>", "set": []any{"c", "d"}, "items": []any{map[string]any{"name": "three", "x": "ü"}}}
		}},
		"passing": {input: managed, change: func(s *stage, want desire) {
			s.intend(2)
			want["database"], want["thing"]["spec"] = database(2), map[string]any{"set": []any{"c"}, "items": []any{map[string]any{"name": "three"}}}
		}},
		"logged": {input: `{}`, change: func(_ *stage, want desire) { want["database"] = database(3) }},
	} {
		t.Run(name, func(t *testing.T) {
			s, want := outputStage(t, tc.input)
			tc.change(s, want)
			got := canonicalJSON(t, s.run(s.request(want)))
			file := "testdata/" + name + ".json"
			if *update {
				if err := os.WriteFile(file, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			stored, err := os.ReadFile(file) //nolint:gosec // Of ours.
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(stored), string(got)); d != "" {
				t.Errorf("-stored +emitted\n%s", d)
			}
		})
	}
}

// canonicalJSON, whose white space is the same in every build, unlike protojson's.
func canonicalJSON(t *testing.T, rsp *fnv1.RunFunctionResponse) []byte {
	t.Helper()
	raw, err := protojson.Marshal(rsp)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}
