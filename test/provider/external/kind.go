package external

import (
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"

	"github.com/kausality-io/function-kausality/test/provider/cloud"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// A Resource of the cloud. Every type that embeds cloud.Meta is one.
type Resource interface {
	Info() cloud.Meta
}

// A Kind maps managed resources of type MG to cloud resources of type R, whose
// fields are of type F.
type Kind[MG resource.Managed, R Resource, F any] struct {
	// New returns an empty managed resource.
	New func() MG

	// Collection is where the cloud keeps the resources.
	Collection func(*client.Client) *client.Collection[R, F]

	// Desired are the fields to create the resource with.
	Desired func(MG) F

	// Changes are the fields to update the resource to. A nil value removes
	// a field, one that is not there is left alone.
	Changes func(MG) client.Fields

	// Diff describes how the resource differs from the desired state, as a text
	// for users. Empty means not at all.
	Diff func(MG, R) string

	// Observe writes status.atProvider.
	Observe func(MG, R)

	// LateInitialize fills fields of the spec that are not set from the
	// resource, and reports whether it did.
	LateInitialize func(MG, R) bool
}
