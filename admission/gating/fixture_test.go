package gating

import "github.com/kausality-io/function-kausality/admission/internal/fixture"

// Short names of the fixtures.

type mod = fixture.Mod

var (
	joined          = fixture.Joined
	terraformObject = fixture.Terraform
	with            = fixture.With
	annotate        = fixture.Annotate
	unannotate      = fixture.Unannotate
	set             = fixture.Set
	policies1       = fixture.Policies
	deleting        = fixture.Deleting
	composite       = fixture.Composite
	instance        = fixture.Instance
	unmasked        = fixture.Unmasked
	noon            = fixture.Noon
	condition       = fixture.Condition
	synced          = fixture.Synced
	ready           = fixture.Ready
	tampered        = fixture.Tampered
	gateValue       = fixture.GateValue
	openUpdate      = fixture.OpenUpdate
)

const (
	observe = fixture.Observe
	create  = fixture.Create
	update  = fixture.Update
	remove  = fixture.Delete
	late    = fixture.LateInitialize
)
