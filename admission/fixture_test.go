package admission

import (
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/internal/fixture"
)

// Short names of the fixtures.

type mod = fixture.Mod

var (
	annotation       = identity.Annotation
	joined           = fixture.Joined
	terraformObject  = fixture.Terraform
	object           = fixture.Object
	hopOf            = fixture.Hop
	with             = fixture.With
	annotate         = fixture.Annotate
	unannotate       = fixture.Unannotate
	set              = fixture.Set
	policies1        = fixture.Policies
	deleting         = fixture.Deleting
	composite        = fixture.Composite
	unsettled        = fixture.Unsettled
	instance         = fixture.Instance
	unmasked         = fixture.Unmasked
	resize           = fixture.Resize
	crossplane       = fixture.Crossplane
	provider         = fixture.Provider
	deployer         = fixture.Deployer
	argocd           = fixture.ArgoCD
	alice            = fixture.Alice
	collector        = fixture.Collector
	gatekeeper       = fixture.GateController
	noon             = fixture.Noon
	composed         = fixture.ComposedManager
	condition        = fixture.Condition
	synced           = fixture.Synced
	ready            = fixture.Ready
	tampered         = fixture.Tampered
	gateValue        = fixture.GateValue
	deploymentAndSet = fixture.DeploymentAndReplicaSet
	openUpdate       = fixture.OpenUpdate
)

const (
	observe = fixture.Observe
	create  = fixture.Create
	update  = fixture.Update
	remove  = fixture.Delete
	late    = fixture.LateInitialize
)
