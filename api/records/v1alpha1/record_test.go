package v1alpha1

import (
	"flag"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/kausality-io/function-kausality/hack/schema"
)

var update = flag.Bool("update", false, "write the schema of records")

var (
	at      = time.Date(2026, 11, 24, 9, 30, 0, 123456000, time.UTC)
	cluster = Cluster{Name: "prod-eu-1", UID: "7f0c1d7e-2f0a-4d3a-9b59-0a3f4f1f8f11"}
	orders  = Object{APIVersion: "example.org/v1", Kind: "XDatabase", Namespace: "shop", Name: "orders", Generation: 3}
)

// intent is a record with what all records have.
func intent() Record {
	return Record{
		Schema: Schema, ID: ID(cluster, orders, TypeIntent, at, "3", "anna"), Type: TypeIntent,
		Time: metav1.NewMicroTime(at), Cluster: cluster, Object: orders, Actor: &Actor{User: "anna"},
	}
}

func TestRecordSchema(t *testing.T) {
	stored := schema.Check[Record](t, filepath.Join("..", "..", "..", "docs", "record.schema.json"), *update)
	assert.Empty(t, schema.Invalid(t, stored, schema.Filled[Record]()))
	assert.Empty(t, schema.Invalid(t, stored, intent()))
	assert.NotEmpty(t, schema.Invalid(t, stored, map[string]any{"schema": Schema}), "the id is missing")
}

func TestEncodeDecode(t *testing.T) {
	full := schema.Filled[Record]()
	full.ID, full.Cut = intent().ID, false
	for name, r := range map[string]Record{"Least": intent(), "Full": full} {
		t.Run(name, func(t *testing.T) {
			before := cloned(t, r)
			raw, err := Encode(r)
			require.NoError(t, err)
			assert.Empty(t, cmp.Diff(before, r), "the record is not changed")
			again, err := Encode(r)
			require.NoError(t, err)
			assert.Equal(t, string(raw), string(again), "the same record gives the same bytes")
			assert.NotContains(t, string(raw), "\n")

			got, err := Decode(raw)
			require.NoError(t, err)
			r.Schema = Schema
			assert.Empty(t, cmp.Diff(r.Bounded(), got))
			assert.False(t, got.Cut)
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	valid, err := Encode(intent())
	require.NoError(t, err)
	with := func(old, new string) string {
		require.Contains(t, string(valid), old)
		return strings.Replace(string(valid), old, new, 1)
	}
	cases := map[string]struct {
		reason string
		raw    string
		schema bool
		ok     bool
	}{
		"Tomorrow":       {raw: with(`"schema":"v1alpha1"`, `"schema":"v2","more":{}`), schema: true, reason: "a later release wrote it"},
		"TomorrowsShape": {raw: `{"schema":"v2","id":7,"time":[]}`, schema: true, reason: "another version may have other types"},
		"NoSchema":       {raw: `{}`, schema: true, reason: "no version is another version"},
		"UpperCaseKey":   {raw: with(`"schema"`, `"Schema"`), schema: true, reason: "keys are case-sensitive"},
		"UnknownField":   {raw: with(`"type"`, `"more":1,"type"`), ok: true, reason: "fields may be added"},
		"UnknownType":    {raw: with(`"Intent"`, `"Tomorrow"`), ok: true, reason: "types may be added"},
		"Empty":          {raw: ``, reason: "no JSON"},
		"Null":           {raw: `null`, schema: true, reason: "no object"},
		"Array":          {raw: `[]`, reason: "no object"},
		"NoType":         {raw: with(`"Intent"`, `""`), reason: "nothing is known of it"},
		"IDInUpperCase":  {raw: with(intent().ID, strings.ToUpper(intent().ID)), reason: "one record has one id"},
		"IDInBraces":     {raw: with(intent().ID, "{"+intent().ID+"}"), reason: "one record has one id"},
		"NoID":           {raw: with(intent().ID, ""), reason: "it could not be recognized when it is repeated"},
		"NoTime":         {raw: with(`"2026-11-24T09:30:00.123456Z"`, `null`), reason: "stores partition by it"},
		"TimeOfYear0":    {raw: with(`2026-11-24`, `0000-01-01`), reason: "no occurrence is before the year 2000"},
		"NoCluster":      {raw: with(string(cluster.UID), ""), reason: "two clusters may have the same name"},
		"NoKind":         {raw: with(`"XDatabase"`, `""`), reason: "it is about nothing"},
		"TooLarge":       {raw: with(`"type"`, `"more":"`+strings.Repeat("x", MaxBytes)+`","type"`), reason: "more than 2 KiB"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Decode([]byte(tc.raw))
			if tc.ok {
				require.NoError(t, err, tc.reason)
				return
			}
			require.Error(t, err, tc.reason)
			var other *SchemaError
			if tc.schema {
				assert.ErrorAs(t, err, &other, tc.reason)
				return
			}
			assert.ErrorIs(t, err, ErrInvalid, tc.reason)
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*Record){
		"NoID":     func(r *Record) { r.ID = "" },
		"NoTime":   func(r *Record) { r.Time = metav1.MicroTime{} },
		"FarTime":  func(r *Record) { r.Time = metav1.NewMicroTime(time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)) },
		"NoObject": func(r *Record) { r.Object = Object{} },
	} {
		t.Run(name, func(t *testing.T) {
			r := intent()
			spoil(&r)
			_, err := Encode(r)
			assert.ErrorIs(t, err, ErrInvalid)
		})
	}
}

// TestID covers KR-16-02.
func TestID(t *testing.T) {
	id := ID(cluster, orders, TypeIntent, at, "3", "anna")
	assert.Equal(t, "4cdbb7d3-d8dc-507f-b663-c14e6d6035e8", id, "the id of an occurrence never changes")
	parsed, err := uuid.Parse(id)
	require.NoError(t, err)
	assert.Equal(t, uuid.Version(5), parsed.Version())
	assert.Equal(t, uuid.RFC4122, parsed.Variant())

	object := func(change func(*Object)) Object {
		o := orders
		change(&o)
		return o
	}
	for name, same := range map[string]string{
		"OtherVersion":  ID(cluster, object(func(o *Object) { o.APIVersion = "example.org/v2" }), TypeIntent, at, "3", "anna"),
		"UID":           ID(cluster, object(func(o *Object) { o.UID = "u" }), TypeIntent, at, "3", "anna"),
		"Generation":    ID(cluster, object(func(o *Object) { o.Generation = 9 }), TypeIntent, at, "3", "anna"),
		"ClusterName":   ID(Cluster{Name: "renamed", UID: cluster.UID}, orders, TypeIntent, at, "3", "anna"),
		"OtherZone":     ID(cluster, orders, TypeIntent, at.In(time.FixedZone("", 3600)), "3", "anna"),
		"OfANanosecond": ID(cluster, orders, TypeIntent, at.Add(999), "3", "anna"),
	} {
		assert.Equal(t, id, same, name)
	}
	for name, other := range map[string]string{
		"Cluster":    ID(Cluster{Name: cluster.Name, UID: "other"}, orders, TypeIntent, at, "3", "anna"),
		"Group":      ID(cluster, object(func(o *Object) { o.APIVersion = "example.com/v1" }), TypeIntent, at, "3", "anna"),
		"Namespace":  ID(cluster, object(func(o *Object) { o.Namespace = "" }), TypeIntent, at, "3", "anna"),
		"Type":       ID(cluster, orders, TypeVote, at, "3", "anna"),
		"Time":       ID(cluster, orders, TypeIntent, at.Add(time.Microsecond), "3", "anna"),
		"Occurrence": ID(cluster, orders, TypeIntent, at, "3", "hans"),
		"Boundary":   ID(cluster, orders, TypeIntent, at, "3a", "nna"),
		"Parts":      ID(cluster, orders, TypeIntent, at, "3anna"),
	} {
		assert.NotEqual(t, id, other, name)
	}
}

// TestBounded covers KR-16-01: no record is larger than it may be, and that a bounded one stays as it is.
func TestBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawn(t)
		before := cloned(t, r)
		got := r.Bounded()
		raw, err := got.json()
		require.NoError(t, err)
		assert.LessOrEqual(t, len(raw), MaxBytes)
		assert.True(t, utf8.Valid(raw))
		assert.Empty(t, cmp.Diff(before, cloned(t, r)), "the record is not changed")
		assert.Empty(t, cmp.Diff(got, r.Bounded()), "the same record gives the same result")
		assert.Empty(t, cmp.Diff(got, got.Bounded()), "a bounded record stays as it is")
		assert.Equal(t, r.ID, got.ID)
		assert.Equal(t, r.Object.Kind, got.Object.Kind)
		decoded, err := Decode(raw)
		require.NoError(t, err)
		assert.Empty(t, cmp.Diff(got, decoded))
	})
}

func TestBoundedOrder(t *testing.T) {
	r := intent()
	r.Labels = map[string]string{"ticket": "OPS-7", "z": strings.Repeat("z", 200)}
	for range maxPaths {
		r.Paths = append(r.Paths, "spec.forProvider."+strings.Repeat("p", 60))
	}
	r.Message = "incident 7"
	for _, user := range []string{"anna", "crossplane", "crossplane", "provider"} {
		r.Trace = append(r.Trace, Hop{Kind: "Object", Name: "orders", User: user})
	}
	got := r.Bounded()
	assert.True(t, got.Cut)
	assert.Equal(t, "incident 7", got.Message)
	assert.Len(t, got.Trace, 4)
	assert.NotEmpty(t, got.Paths)
	assert.Less(t, len(got.Paths), maxPaths)
	assert.Empty(t, got.Labels, "labels are the first to be left out")

	r.Message = strings.Repeat("\x01", 1000)
	assert.LessOrEqual(t, len(r.Bounded().Message), maxText/6, "texts are measured as JSON has them")
}

// FuzzDecode is that Decode returns a record that encodes to itself, or an error of its kinds.
func FuzzDecode(f *testing.F) {
	full := schema.Filled[Record]()
	full.ID = intent().ID
	for _, r := range []Record{intent(), full} {
		raw, err := Encode(r)
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Add([]byte(`{"schema":"v2"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := Decode(raw)
		if err != nil {
			return
		}
		encoded, err := Encode(r)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(encoded), MaxBytes)
		again, err := Decode(encoded)
		require.NoError(t, err)
		assert.Empty(t, cmp.Diff(r, again))
	})
}

// drawn is a record with texts and lists of any length.
func drawn(t *rapid.T) Record {
	r := Record{}
	draw(t, reflect.ValueOf(&r).Elem())
	r.Schema, r.ID, r.Type, r.Time, r.Cluster.UID, r.Object.Kind = Schema, intent().ID, TypeIntent, intent().Time, "uid", "Kind"
	return r
}

func draw(t *rapid.T, v reflect.Value) {
	if v.Type() == reflect.TypeFor[metav1.MicroTime]() {
		return
	}
	text := func() string {
		s := rapid.SampledFrom([]string{"", "a", "ö", "\x00", "<", "\u2028", "\xff", `"`, "ab/c"}).Draw(t, "of")
		return strings.Repeat(s, rapid.SampledFrom([]int{1, 20, 1000}).Draw(t, "times"))
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		draw(t, v.Elem())
	case reflect.String:
		v.SetString(text())
	case reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Slice:
		n := rapid.SampledFrom([]int{0, 1, 40}).Draw(t, "length")
		if n == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			draw(t, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rapid.IntRange(0, 30).Draw(t, "labels") {
			v.SetMapIndex(reflect.ValueOf(text()), reflect.ValueOf(text()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			draw(t, v.Field(i))
		}
	}
}

// cloned record, which shares nothing with r.
func cloned(t require.TestingT, r Record) Record {
	out := reflect.New(reflect.TypeFor[Record]()).Elem()
	clone(out, reflect.ValueOf(r))
	c, ok := out.Interface().(Record)
	require.True(t, ok)
	return c
}

func clone(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			clone(to.Elem(), from.Elem())
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				clone(to.Index(i), from.Index(i))
			}
		}
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMap(from.Type()))
			for _, k := range from.MapKeys() {
				to.SetMapIndex(k, from.MapIndex(k))
			}
		}
	case reflect.Struct:
		if from.Type() == reflect.TypeFor[metav1.MicroTime]() {
			to.Set(from)
			return
		}
		for i := range from.NumField() {
			clone(to.Field(i), from.Field(i))
		}
	default:
		to.Set(from)
	}
}
