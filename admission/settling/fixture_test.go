package settling

import "github.com/kausality-io/function-kausality/admission/internal/fixture"

// Short names of the fixtures.

type mod = fixture.Mod

var (
	unsettled        = fixture.Unsettled
	hopOf            = fixture.Hop
	with             = fixture.With
	annotate         = fixture.Annotate
	set              = fixture.Set
	deleting         = fixture.Deleting
	composite        = fixture.Composite
	instance         = fixture.Instance
	noon             = fixture.Noon
	condition        = fixture.Condition
	synced           = fixture.Synced
	ready            = fixture.Ready
	gateValue        = fixture.GateValue
	deploymentAndSet = fixture.DeploymentAndReplicaSet
	openUpdate       = fixture.OpenUpdate
)
