package input

// A PatchType says from where to where a patch copies.
type PatchType string

// The patch types.
const (
	// PatchFromComposite copies a field of the observed composite to the
	// desired composed resource. The default.
	PatchFromComposite PatchType = "FromCompositeFieldPath"
	// PatchToComposite copies a field of the observed composed resource to
	// the desired composite.
	PatchToComposite PatchType = "ToCompositeFieldPath"
	// PatchCombineFromComposite combines fields of the observed composite
	// into one field of the desired composed resource.
	PatchCombineFromComposite PatchType = "CombineFromComposite"
)

// A Patch copies a value between the composite and a composed resource.
type Patch struct {
	// Type of the patch; empty means PatchFromComposite.
	Type PatchType `json:"type,omitempty"`

	// FromFieldPath is the source, unless the patch combines several.
	FromFieldPath *string `json:"fromFieldPath,omitempty"`

	// ToFieldPath is the destination; nil means the same path as the source.
	ToFieldPath *string `json:"toFieldPath,omitempty"`

	// Combine says what to combine and how.
	Combine *Combine `json:"combine,omitempty"`

	// Transforms the value passes through, first to last.
	Transforms []Transform `json:"transforms,omitempty"`

	// Policy on a source that does not exist.
	Policy *Policy `json:"policy,omitempty"`
}

// Kind is the type of the patch with its default.
func (p Patch) Kind() PatchType {
	if p.Type == "" {
		return PatchFromComposite
	}
	return p.Type
}

// ToComposed is true if the patch writes to the composed resource.
func (p Patch) ToComposed() bool { return p.Kind() != PatchToComposite }

// To is the destination path with its default.
func (p Patch) To() string {
	if p.ToFieldPath != nil {
		return *p.ToFieldPath
	}
	if p.FromFieldPath != nil {
		return *p.FromFieldPath
	}
	return ""
}

// Required is true if a composed resource that does not exist yet must not be
// created before the source exists.
func (p Patch) Required() bool {
	return p.Policy != nil && p.Policy.FromFieldPath == FromRequired
}

// A FromPolicy says what a missing source means.
type FromPolicy string

// The policies on a missing source.
const (
	FromOptional FromPolicy = "Optional" // skip the patch; the default
	FromRequired FromPolicy = "Required" // do not create the composed resource yet
)

// A Policy of a patch.
type Policy struct {
	FromFieldPath FromPolicy `json:"fromFieldPath,omitempty"`
}

// CombineString is the only strategy of a Combine.
const CombineString = "string"

// Combine several sources into one value.
type Combine struct {
	Variables []Variable `json:"variables"`
	Strategy  string     `json:"strategy"`
	String    *Format    `json:"string,omitempty"`
}

// A Variable is one source of a Combine.
type Variable struct {
	FromFieldPath string `json:"fromFieldPath"`
}

// A Format is a format string of Go's package fmt.
type Format struct {
	Format string `json:"fmt"`
}
