package admission

import incoming "github.com/kausality-io/function-kausality/admission/request"

// Request to decide, and its parts: see package request.
type (
	Request   = incoming.Request
	Operation = incoming.Operation
	Actor     = incoming.Actor
)

const (
	Create                = incoming.Create
	Update                = incoming.Update
	Delete                = incoming.Delete
	SubresourceScale      = incoming.SubresourceScale
	ActorUnknown          = incoming.ActorUnknown
	ActorParentController = incoming.ActorParentController
)
