package page

import (
	"testing"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/view/viewtest"
)

const (
	shopPath     = viewtest.ShopPath
	databasePath = viewtest.DatabasePath
	driftPath    = viewtest.DriftPath
	heldID       = viewtest.HeldID
)

var (
	held    = viewtest.Held
	morning = viewtest.Morning
)

// newServer with the platform and Drifts.
func newServer(t *testing.T, drifts ...*v1alpha1.Drift) (*viewtest.Server, Options, *viewtest.Clock) {
	t.Helper()
	s, o, clock := viewtest.New(t, drifts...)
	return s, Options{Options: o, Cluster: "prod"}, clock
}
