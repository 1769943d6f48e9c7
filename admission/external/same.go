package external

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kausality-io/function-kausality/admission/builtin"
	"github.com/kausality-io/function-kausality/admission/change"
)

// same reports whether two values are the same, in whatever form they are written. 3 and 3.0 are the same. Unless
// both sides were written by the same API server, "1Gi" and "1024Mi" are, "90s" and "1m30s", and a JSON document and
// the same one with other spaces (KR-08-45).
func (c *comparer) same(a, b any) bool {
	if change.Same(a, b) {
		return true
	}
	if c.exact {
		return false
	}
	x, isText := a.(string)
	y, both := b.(string)
	if isText && both {
		return sameQuantity(x, y) || sameDuration(x, y) || sameJSON(x, y)
	}
	return c.quantities && builtin.SameQuantity(a, b)
}

// unit of a quantity. A text without one may be a version, as 1.10, or an id, as 1e3.
var unit = regexp.MustCompile(`^[+-]?[0-9.]+(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)$`)

// plain number without an exponent.
var plain = regexp.MustCompile(`^[+-]?[0-9.]+$`)

// sameQuantity reports whether two quantities of Kubernetes are the same, as "1Gi" and "1024Mi": providers report
// their own unit. At least one of them must have a unit.
func sameQuantity(a, b string) bool {
	if !unit.MatchString(a) && !unit.MatchString(b) || !quantityLike(a) || !quantityLike(b) {
		return false
	}
	x, err := resource.ParseQuantity(a)
	if err != nil {
		return false
	}
	y, err := resource.ParseQuantity(b)
	return err == nil && x.Cmp(y) == 0
}

func quantityLike(s string) bool { return unit.MatchString(s) || plain.MatchString(s) }

// sameDuration reports whether two durations with units are the same, as "90s" and "1m30s".
func sameDuration(a, b string) bool {
	x, err := time.ParseDuration(a)
	if err != nil {
		return false
	}
	y, err := time.ParseDuration(b)
	return err == nil && x == y && (x != 0 || a != "0" && b != "0")
}

// sameJSON reports whether two documents within strings are the same, as IAM policies are: a provider reports them
// with other white space and order of keys.
func sameJSON(a, b string) bool {
	if !strings.HasPrefix(strings.TrimSpace(a), "{") && !strings.HasPrefix(strings.TrimSpace(a), "[") {
		return false
	}
	x, ok := document(a)
	y, both := document(b)
	return ok && both && sameDocument(x, y)
}

// document returns the JSON document of a text, with its numbers as they are written: float64 holds 53 bits.
func document(text string) (v any, ok bool) {
	if !json.Valid([]byte(text)) {
		return nil, false
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return v, d.Decode(&v) == nil
}

func sameDocument(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			if w, ok := y[k]; !ok || !sameDocument(v, w) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !sameDocument(x[i], y[i]) {
				return false
			}
		}
		return true
	case json.Number:
		y, ok := b.(json.Number)
		return ok && sameNumber(x.String(), y.String())
	}
	return a == b
}

// maxDigits of a number that is compared by value: the exponent of a longer one could
// take unbounded memory.
const maxDigits = 40

func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	if strings.ContainsAny(a+b, "eE") || len(a) > maxDigits || len(b) > maxDigits {
		return false
	}
	x, ok := new(big.Rat).SetString(a)
	y, both := new(big.Rat).SetString(b)
	return ok && both && x.Cmp(y) == 0
}
