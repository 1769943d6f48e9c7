package admission

import (
	incoming "github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

type (
	// Request to decide: see package request.
	Request = incoming.Request
	// Operation of a Request.
	Operation = incoming.Operation
	// Held is what was refused of a child as drift.
	Held = incoming.Held
	// Actor is what an adapter knows of the user of a Request.
	Actor = incoming.Actor
)

// HeldOf a record of what is held.
func HeldOf(d v1alpha1.HeldDrift) *Held { return incoming.HeldOf(d) }

// Values of Operation, Subresource and Actor.
const (
	Create                = incoming.Create
	Update                = incoming.Update
	Delete                = incoming.Delete
	SubresourceScale      = incoming.SubresourceScale
	ActorUnknown          = incoming.ActorUnknown
	ActorParentController = incoming.ActorParentController
)
