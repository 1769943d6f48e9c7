package world

import (
	"fmt"
	"strings"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/request"
)

// maxFields is the number of fields that String names.
const maxFields = 5

// String names the child, the fields and the id.
func (b Below) String() string {
	out := b.Child
	switch {
	case b.Operation == request.Create:
		out = "the creation of " + out
	case b.Operation == request.Delete:
		out = "the deletion of " + out
	case len(b.Paths) > 0:
		n := min(len(b.Paths), maxFields)
		out = strings.Join(b.Paths[:n], ", ") + " of " + out
		if more := len(b.Paths) - n; more > 0 {
			out = fmt.Sprintf("%s and %d more fields", strings.Join(b.Paths[:n], ", "), more) + " of " + b.Child
		}
	}
	if b.ID != "" {
		out += " (" + b.ID + ")"
	}
	return out
}

// MaxBelow is how many held changes World.Below returns.
const MaxBelow = 64

// Below is what is held of a child.
type Below struct {
	// Child, as in identity.Describe.
	Child string
	// Operation of the change.
	Operation request.Operation
	// Paths of the fields that an Update would change.
	Paths []string
	// ID of the difference, its digest where that is known, and the intent generation of the parent since which it is held; 0 where that is
	// unknown.
	ID     string
	Digest change.Digest
	Since  int64
	// Own: the child is one of the object, and not of a child of it.
	Own bool
}
