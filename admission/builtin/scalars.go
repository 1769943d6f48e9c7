package builtin

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/change"
)

// equals holds, for each type with values that have several forms, the function that compares two of them. All other
// types have one form.
var equals = map[reflect.Type]func(a, b any) bool{
	reflect.TypeFor[resource.Quantity](): SameQuantity,
	reflect.TypeFor[metav1.Duration]():   sameDuration,
	reflect.TypeFor[metav1.Time]():       sameTime,
	reflect.TypeFor[metav1.MicroTime]():  sameTime,
	reflect.TypeFor[[]byte]():            sameBytes,
}

// resourceList is a type whose quantities the API server rounds up to thousandths.
var resourceList = reflect.TypeFor[corev1.ResourceList]()

// SameQuantity reports whether two values are quantities, as texts or numbers, of the same amount.
func SameQuantity(a, b any) bool {
	x, ok := Quantity(a)
	y, both := Quantity(b)
	return ok && both && x.Cmp(y) == 0
}

func sameResource(a, b any) bool {
	x, ok := Quantity(a)
	y, both := Quantity(b)
	if !ok || !both {
		return false
	}
	x.RoundUp(resource.Milli)
	y.RoundUp(resource.Milli)
	return x.Cmp(y) == 0
}

// Quantity returns the quantity of a value: text, or a number as JSON writes it.
func Quantity(v any) (q resource.Quantity, ok bool) {
	text, ok := v.(string)
	if !ok {
		if _, isNumber := change.Number(v); !isNumber {
			return q, false
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return q, false
		}
		text = string(raw)
	}
	q, err := resource.ParseQuantity(text)
	return q, err == nil
}

func sameDuration(a, b any) bool {
	x, y, ok := texts(a, b)
	if !ok {
		return false
	}
	d, err := time.ParseDuration(x)
	if err != nil {
		return false
	}
	e, err := time.ParseDuration(y)
	return err == nil && d == e
}

func sameTime(a, b any) bool {
	x, y, ok := texts(a, b)
	if !ok {
		return false
	}
	s, err := time.Parse(time.RFC3339Nano, x)
	if err != nil {
		return false
	}
	t, err := time.Parse(time.RFC3339Nano, y)
	return err == nil && s.Truncate(time.Second).Equal(t.Truncate(time.Second)) && (s.Nanosecond() == t.Nanosecond() || t.Nanosecond() == 0)
}

// sameBytes reports whether two texts in base64 are the same: base64 may be broken into lines.
func sameBytes(a, b any) bool {
	x, y, ok := texts(a, b)
	if !ok {
		return false
	}
	v, err := base64.StdEncoding.DecodeString(x)
	if err != nil {
		return false
	}
	w, err := base64.StdEncoding.DecodeString(y)
	return err == nil && string(v) == string(w)
}

func texts(a, b any) (x, y string, ok bool) {
	x, ok = a.(string)
	y, both := b.(string)
	return x, y, ok && both
}

// sameNumber reports whether two numbers are the same, as 3 and 3.0 are. Integers are not compared by way of float64,
// which holds 53 bits.
func sameNumber(a, b any) bool {
	x, ok := change.Number(a)
	y, both := change.Number(b)
	i, isInt := a.(int64)
	j, areInt := b.(int64)
	return ok && both && x == y && (!isInt || !areInt || i == j)
}
