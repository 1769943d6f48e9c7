package external

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	"github.com/crossplane/crossplane-runtime/v2/pkg/meta"

	"github.com/kausality-io/function-kausality/test/provider/apis/aws"
	"github.com/kausality-io/function-kausality/test/provider/cloud"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// TestInstances: an RDSInstance is created, found different, updated, and deleted.
func TestInstances(t *testing.T) {
	srv := httptest.NewServer(cloud.NewServer())
	t.Cleanup(srv.Close)
	ctx, c := context.Background(), client.New(srv.URL)
	mg := &aws.RDSInstance{}
	mg.SetName("db")
	meta.SetExternalName(mg, "db")
	mg.Spec.ForProvider = aws.RDSInstanceParameters{InstanceClass: "db.t3.medium", Engine: "postgres"}
	x, err := NewConnector(ctx, Instances(), c, NewTracker(), nil, Options{}, logging.NewNopLogger()).Connect(ctx, mg)
	if err != nil {
		t.Fatal(err)
	}
	observe := func(exists, current bool) {
		t.Helper()
		o, err := x.Observe(ctx, mg)
		if err != nil || o.ResourceExists != exists || o.ResourceUpToDate != current {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	observe(false, false)
	if _, err := x.Create(ctx, mg); err != nil {
		t.Fatal(err)
	}
	observe(true, true)
	mg.Spec.ForProvider.InstanceClass = "db.t3.large"
	observe(true, false)
	if _, err := x.Update(ctx, mg); err != nil {
		t.Fatal(err)
	}
	observe(true, true)
	if d := cmp.Diff(aws.RDSInstanceObservation{InstanceClass: "db.t3.large", Engine: "postgres"}, mg.Status.AtProvider); d != "" {
		t.Error(d)
	}
	if _, err := x.Delete(ctx, mg); err != nil {
		t.Fatal(err)
	}
	observe(false, false)
	if _, _, err := c.Instances().Put(ctx, "bad", cloud.InstanceFields{Engine: "postgres"}); err == nil {
		t.Error("an instance without a class is created")
	}
}
