package onepass

import (
	"strings"
	"testing"
)

// nested objects, n deep.
func nested(n int, inner string) string {
	return strings.Repeat(`{"a":`, n) + inner + strings.Repeat("}", n)
}

// TestDeepObjects: an object as deep as the API server accepts is read, with the rest of its review (KR-13-28).
func TestDeepObjects(t *testing.T) {
	const depth = 10_000
	object := nested(depth-1, `{"kind":"Thing","b":"\"}]{[\\"}`)
	review := `{"kind":"AdmissionReview","request":{"uid":"u1","object":` + object + `,"kind":{"kind":"object"},"oldObject":` + object + `,"operation":"UPDATE"}}`
	if _, err := values([]byte(review), parser{shared: true}); err == nil {
		t.Fatal("the decoder reads it as it is")
	}
	read, err := Review([]byte(review))
	if err != nil {
		t.Fatal(err)
	}
	request := read["request"].(map[string]any)
	if request["uid"] != "u1" || request["operation"] != "UPDATE" || read["kind"] != "AdmissionReview" {
		t.Errorf("the review is %v, %v", request["uid"], request["operation"])
	}
	for _, key := range []string{"object", "oldObject"} {
		at := request[key]
		for range depth - 1 {
			at = at.(map[string]any)["a"]
		}
		if got := at.(map[string]any)["b"]; got != `"}]{[\` {
			t.Errorf("%s: got %v", key, got)
		}
	}
	if _, err := Review([]byte(`{"request":{"object":` + nested(depth, "{}") + `}}`)); err == nil {
		t.Error("deeper than the API server accepts")
	}
}

// FuzzDeep: no input makes it panic.
func FuzzDeep(f *testing.F) {
	for _, s := range []string{
		`{"request":{"object":{"a":1}}}`, `{"request":{"object":{"a":"`, `{"request":{"object":[1],"x":"\`, `]]]`, `"`, `{"request":{"object":{}},"x":[`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(_ *testing.T, raw []byte) { deep(raw) })
}
