package external

import (
	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/test/provider/apis/rds"
	"github.com/kausality-io/function-kausality/test/provider/cloud"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// An InstanceKind maps RDSInstance to the cloud's instances.
type InstanceKind = Kind[*rds.RDSInstance, cloud.Instance, cloud.InstanceFields]

// Instances maps RDSInstance to the cloud's instances.
func Instances() InstanceKind {
	return InstanceKind{
		New:        func() *rds.RDSInstance { return &rds.RDSInstance{} },
		Collection: (*client.Client).Instances,
		Desired:    instanceDesired,
		Changes: func(mg *rds.RDSInstance) client.Fields {
			return client.Fields{"instanceClass": mg.Spec.ForProvider.InstanceClass, "engine": mg.Spec.ForProvider.Engine}
		},
		Diff: func(mg *rds.RDSInstance, r cloud.Instance) string {
			return cmp.Diff(r.InstanceFields, instanceDesired(mg))
		},
		Observe: func(mg *rds.RDSInstance, r cloud.Instance) {
			mg.Status.AtProvider = rds.RDSInstanceObservation{InstanceClass: r.InstanceClass, Engine: r.Engine}
		},
		LateInitialize: func(*rds.RDSInstance, cloud.Instance) bool { return false },
	}
}

func instanceDesired(mg *rds.RDSInstance) cloud.InstanceFields {
	p := mg.Spec.ForProvider
	return cloud.InstanceFields{InstanceClass: p.InstanceClass, Engine: p.Engine}
}
