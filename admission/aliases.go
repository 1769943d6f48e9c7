package admission

import (
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/admission/world"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

type (
	// Request to decide: see package request.
	Request = request.Request
	// Operation of a Request.
	Operation = request.Operation
	// Held is what was refused of a child as drift.
	Held = request.Held

	// Decision about a request: see package outcome.
	Decision = outcome.Decision
	// Answer of a Decision.
	Answer = outcome.Answer
	// Report of a drift.
	Report = outcome.Report

	// World is what Evaluate reads of a cluster: see package world.
	World = world.World
	// Policies is where the policies of a cluster come from.
	Policies = world.Policies
	// Nothing answers the questions of a World that only a cluster can answer.
	Nothing = world.Nothing
	// Below is what is held of a child.
	Below = world.Below
	// Known is what is known of the differences under an id.
	Known = world.Known

	// Options of an Evaluator: see package facts.
	Options = facts.Options
	// ApproverRBAC is the value of --approver-rbac.
	ApproverRBAC = facts.ApproverRBAC
	// Identify is the value of --identify-controller.
	Identify = facts.Identify
	// ExpectUntil is the value of --expect-until.
	ExpectUntil = facts.ExpectUntil
)

// HeldOf returns what a record of held changes contains; nil for an empty record.
func HeldOf(d v1alpha1.HeldDrift) *Held { return request.HeldOf(d) }

// Values of Operation, Subresource and Actor.
const (
	Create                = request.Create
	Update                = request.Update
	Delete                = request.Delete
	SubresourceScale      = request.SubresourceScale
	ActorUnknown          = request.ActorUnknown
	ActorParentController = request.ActorParentController
)

// Values of Identify and ExpectUntil.
const (
	IdentifyAuto         = facts.IdentifyAuto
	IdentifyUserHash     = facts.IdentifyUserHash
	IdentifyFieldManager = facts.IdentifyFieldManager
	ExpectUntilConverged = facts.ExpectUntilConverged
	ExpectUntilObserved  = facts.ExpectUntilObserved
)

// PathExternalName is the external name as a field path.
const PathExternalName = facts.PathExternalName

// Limits of a World, and the right to approve.
const (
	MaxBelow            = world.MaxBelow
	VerbApprove         = world.VerbApprove
	SubresourceApproval = world.SubresourceApproval
)

// Values of Options.ApproverRBAC.
const (
	ApproverRBACOff      = facts.ApproverRBACOff
	ApproverRBACOn       = facts.ApproverRBACOn
	ApproverRBACResource = facts.ApproverRBACResource
)

// Errors of World.Parent.
var (
	ErrNotFound = world.ErrNotFound
	ErrDeleted  = world.ErrDeleted
)
