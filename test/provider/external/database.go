package external

import (
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kausality-io/function-kausality/test/provider/apis/v1alpha1"
	"github.com/kausality-io/function-kausality/test/provider/cloud"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// A DatabaseKind maps Database to the cloud's databases.
type DatabaseKind = Kind[*v1alpha1.Database, cloud.Database, cloud.DatabaseFields]

// Databases maps Database to the cloud's databases.
func Databases() DatabaseKind {
	return DatabaseKind{
		New:            func() *v1alpha1.Database { return &v1alpha1.Database{} },
		Collection:     (*client.Client).Databases,
		Desired:        databaseDesired,
		Changes:        databaseChanges,
		Diff:           databaseDiff,
		Observe:        databaseObserve,
		LateInitialize: databaseLateInitialize,
	}
}

func databaseDesired(mg *v1alpha1.Database) cloud.DatabaseFields {
	p := mg.Spec.ForProvider
	f := cloud.DatabaseFields{Size: p.Size, Tags: p.Tags}
	if p.Engine != nil {
		f.Engine = *p.Engine
	}
	return f
}

func databaseChanges(mg *v1alpha1.Database) client.Fields {
	p := mg.Spec.ForProvider
	f := client.Fields{"size": p.Size, "tags": nil}
	if len(p.Tags) > 0 {
		f["tags"] = p.Tags
	}
	if p.Engine != nil {
		f["engine"] = *p.Engine
	}
	return f
}

// databaseDiff compares what the spec sets. An engine that is not set is the
// cloud's choice; tags that are not set are none.
func databaseDiff(mg *v1alpha1.Database, r cloud.Database) string {
	want := databaseDesired(mg)
	if mg.Spec.ForProvider.Engine == nil {
		want.Engine = r.Engine
	}
	return cmp.Diff(r.DatabaseFields, want, cmpopts.EquateEmpty())
}

func databaseObserve(mg *v1alpha1.Database, r cloud.Database) {
	mg.Status.AtProvider = v1alpha1.DatabaseObservation{
		Size:   r.Size,
		Engine: r.Engine,
		Tags:   r.Tags,
		State:  string(r.Status),
	}
}

func databaseLateInitialize(mg *v1alpha1.Database, r cloud.Database) bool {
	if mg.Spec.ForProvider.Engine != nil || r.Engine == "" {
		return false
	}
	mg.Spec.ForProvider.Engine = &r.Engine
	return true
}
