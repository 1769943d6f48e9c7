package external

import (
	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/test/provider/apis/aws"
	"github.com/kausality-io/function-kausality/test/provider/cloud"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// An InstanceKind maps RDSInstance to the cloud's instances.
type InstanceKind = Kind[*aws.RDSInstance, cloud.Instance, cloud.InstanceFields]

// Instances maps RDSInstance to the cloud's instances.
func Instances() InstanceKind {
	return InstanceKind{
		New:        func() *aws.RDSInstance { return &aws.RDSInstance{} },
		Collection: (*client.Client).Instances,
		Desired:    instanceDesired,
		Changes: func(mg *aws.RDSInstance) client.Fields {
			return client.Fields{"instanceClass": mg.Spec.ForProvider.InstanceClass, "engine": mg.Spec.ForProvider.Engine}
		},
		Diff: func(mg *aws.RDSInstance, r cloud.Instance) string {
			return cmp.Diff(r.InstanceFields, instanceDesired(mg))
		},
		Observe: func(mg *aws.RDSInstance, r cloud.Instance) {
			mg.Status.AtProvider = aws.RDSInstanceObservation{InstanceClass: r.InstanceClass, Engine: r.Engine}
		},
		LateInitialize: func(*aws.RDSInstance, cloud.Instance) bool { return false },
	}
}

func instanceDesired(mg *aws.RDSInstance) cloud.InstanceFields {
	p := mg.Spec.ForProvider
	return cloud.InstanceFields{InstanceClass: p.InstanceClass, Engine: p.Engine}
}
