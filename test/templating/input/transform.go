package input

// A TransformType names a transformation.
type TransformType string

// The transforms.
const (
	TransformMap     TransformType = "map"     // look the value up in a table
	TransformMath    TransformType = "math"    // multiply the value
	TransformString  TransformType = "string"  // format the value
	TransformConvert TransformType = "convert" // change the value's type
)

// A Transform changes the value on its way.
type Transform struct {
	Type    TransformType  `json:"type"`
	Map     map[string]any `json:"map,omitempty"`
	Math    *Math          `json:"math,omitempty"`
	String  *String        `json:"string,omitempty"`
	Convert *Convert       `json:"convert,omitempty"`
}

// MathMultiply is the only supported Math.Type.
const MathMultiply = "Multiply"

// Math multiplies. Integers stay integers.
type Math struct {
	Type     string `json:"type,omitempty"`
	Multiply *int64 `json:"multiply,omitempty"`
}

// StringFormat is the only supported String.Type.
const StringFormat = "Format"

// String formats the value with a format string of Go's package fmt.
type String struct {
	Type   string  `json:"type,omitempty"`
	Format *string `json:"fmt,omitempty"`
}

// A ValueType is a type that values convert to.
type ValueType string

// The types to convert to. ValueInt means the same as ValueInt64.
const (
	ValueString  ValueType = "string"
	ValueBool    ValueType = "bool"
	ValueInt     ValueType = "int"
	ValueInt64   ValueType = "int64"
	ValueFloat64 ValueType = "float64"
)

// Convert changes the type of the value.
type Convert struct {
	ToType ValueType `json:"toType"`
}
