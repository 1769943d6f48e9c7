package admission

import incoming "github.com/kausality-io/function-kausality/admission/request"

type (
	// Request to decide: see package request.
	Request = incoming.Request
	// Operation of a Request.
	Operation = incoming.Operation
	// Actor is what an adapter knows of the user of a Request.
	Actor = incoming.Actor
)

// Values of Operation, Subresource and Actor.
const (
	Create                = incoming.Create
	Update                = incoming.Update
	Delete                = incoming.Delete
	SubresourceScale      = incoming.SubresourceScale
	ActorUnknown          = incoming.ActorUnknown
	ActorParentController = incoming.ActorParentController
)
