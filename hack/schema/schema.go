package schema

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// Check that a file has the schema of a type of the package that is tested, and return it; with update the file is written.
func Check[T any](t *testing.T, file string, update bool) []byte {
	t.Helper()
	schema := schemaOf(t, reflect.TypeFor[T](), comments(t))
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	schema["title"] = reflect.TypeFor[T]().Name()
	want, err := json.MarshalIndent(schema, "", "  ")
	require.NoError(t, err)
	want = append(want, '\n')
	if update {
		require.NoError(t, os.WriteFile(file, want, 0o600))
	}
	stored, err := os.ReadFile(file) //nolint:gosec // A test names it.
	require.NoError(t, err)
	assert.Equal(t, string(want), string(stored), "go test with -args -update in this package writes it")
	return stored
}

// Filled returns a value with every field.
func Filled[T any]() T {
	var out T
	fill(reflect.ValueOf(&out).Elem())
	return out
}

// Invalid returns why a document is not valid by a schema.
func Invalid(t *testing.T, schema []byte, document any) []error {
	t.Helper()
	var s spec.Schema
	require.NoError(t, json.Unmarshal(schema, &s))
	raw, err := json.Marshal(document)
	require.NoError(t, err)
	var value any
	require.NoError(t, json.Unmarshal(raw, &value))
	return validate.NewSchemaValidator(&s, nil, "", strfmt.Default).Validate(value).Errors
}

// ruleIDs in comments mean nothing to who receives a report.
var ruleIDs = regexp.MustCompile(` \(KR-[^)]*\)`)

// comments of the fields of the types of the package that is tested, by TYPE.FIELD.
func comments(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			declared, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			of, ok := declared.Type.(*ast.StructType)
			if !ok {
				return false
			}
			for _, field := range of.Fields.List {
				for _, n := range field.Names {
					var lines []string
					for _, l := range strings.Split(field.Doc.Text(), "\n") {
						if l != "" && !strings.HasPrefix(l, "+") {
							lines = append(lines, l)
						}
					}
					out[declared.Name.Name+"."+n.Name] = ruleIDs.ReplaceAllString(strings.Join(lines, " "), "")
				}
			}
			return false
		})
	}
	return out
}

// schemaOf a type, as encoding/json writes it.
func schemaOf(t *testing.T, of reflect.Type, docs map[string]string) map[string]any {
	t.Helper()
	switch of {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return map[string]any{"type": []any{"string", "null"}, "format": "date-time"}
	case reflect.TypeFor[runtime.RawExtension]():
		return map[string]any{"type": "object"}
	}
	switch of.Kind() {
	case reflect.Pointer:
		return schemaOf(t, of.Elem(), docs)
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t, of.Elem(), docs)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t, of.Elem(), docs)}
	case reflect.Struct:
		properties, required := map[string]any{}, []string{}
		addFields(t, of, docs, properties, &required)
		out := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
		if len(required) > 0 {
			out["required"] = required
		}
		return out
	}
	t.Fatalf("no schema for %s", of)
	return nil
}

// addFields of a struct to the properties of an object.
func addFields(t *testing.T, of reflect.Type, docs map[string]string, properties map[string]any, required *[]string) {
	t.Helper()
	for i := range of.NumField() {
		f := of.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			addFields(t, f.Type, docs, properties, required)
			continue
		}
		s := schemaOf(t, f.Type, docs)
		if text := docs[of.Name()+"."+f.Name]; text != "" {
			s["description"] = text
		}
		properties[name] = s
		if !strings.Contains(options, "omit") && of != reflect.TypeFor[metav1.TypeMeta]() {
			*required = append(*required, name)
		}
	}
}

// fill every field of a value.
func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.NewTime(time.Unix(1700000000, 0))))
		return
	case metav1.MicroTime:
		v.Set(reflect.ValueOf(metav1.NewMicroTime(time.Unix(1700000000, 123000))))
		return
	case runtime.RawExtension:
		v.Set(reflect.ValueOf(runtime.RawExtension{Raw: []byte(`{"kind":"Object"}`)}))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.String:
		v.SetString("text")
	case reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), reflect.ValueOf("value"))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	default:
		panic(fmt.Sprintf("cannot fill %s", v.Type()))
	}
}
