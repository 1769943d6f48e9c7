package carry

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Write of an object that has a Field.
type Write struct {
	Field Field
	// Object after the write, and Old before it, nil for a creation.
	Object, Old map[string]any
	// Records: the setting is on. Reached: the change reaches the external resource with this write.
	Records, Reached bool
	// ByUser: a user makes the write, who is warned.
	ByUser bool
	// Cause of the change, without its Variables; it is read where the change is recorded.
	Cause Cause
}

// Leaves reports whether a write leaves what the field has of Kausality, as most do.
func (w *Write) Leaves() bool {
	stored := w.Field.Taken(ForProvider(w.Old)[w.Field.Name])
	return (!w.Reached || !w.Records && stored == nil) && slices.Equal(w.Field.Taken(ForProvider(w.Object)[w.Field.Name]), stored)
}

// Edit returns the value of the field after the write; changed is false where the write has it already. A change that reaches the external resource has
// its own cause. All other writes leave what is stored: a re-apply without it, and one that brings another (KR-08-43). What a write brings is never
// taken, also of the composition function: since it is no part of the desired state, it is not decided about, and a module may read it.
func (w *Write) Edit() (value any, changed bool, warnings []string) {
	f := w.Field
	wanted := ForProvider(w.Object)[f.Name]
	stored := f.Taken(ForProvider(w.Old)[f.Name])
	ours, brought := stored, f.Taken(wanted)
	switch {
	case !w.Reached:
	case !w.Records:
		ours = nil
	default:
		c := w.Cause
		if f.Provenance == v1alpha1.ProvenanceTerraformEnv {
			var err error
			if c.Variables, err = Declared(ForProvider(w.Object)); err != nil {
				warnings = append(warnings, fmt.Sprintf("no input variables of Kausality are set: %v", err))
			}
		}
		ours = f.Entries(c)
	}
	value, err := f.With(wanted, ours)
	if err != nil {
		warnings = append(warnings, fmt.Sprintf("no provenance: %v", err))
	}
	if w.ByUser && len(brought) > 0 && !slices.Equal(brought, stored) && !slices.Equal(brought, ours) {
		warnings = append(warnings, fmt.Sprintf("%s in spec.forProvider.%s is written by Kausality alone; what the request has there is replaced",
			brought[0].Name, f.Name))
	}
	return value, !reflect.DeepEqual(value, wanted), warnings
}
