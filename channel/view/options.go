package view

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Options of a View.
type Options struct {
	// Config of the connection to the cluster, as the user whose view it is.
	Config *rest.Config
	// Mapper finds resources of kinds.
	Mapper meta.RESTMapper
	// DefaultMode of the processes in the cluster; where empty it is derived.
	DefaultMode v1alpha1.Mode
	// User of the configuration, as the API server authenticates them.
	User string
	// Namespace is read where the user may list neither Drifts nor Namespaces of the whole cluster.
	Namespace string
	// Manager is the field manager of what is written: votes have it as their via.
	Manager string
	// Expired is what the user is shown whose credentials the API server does not accept any more, as sentences.
	Expired string
	// Again is a sentence on how what could not be read is read again.
	Again string
	// Early is called with what waits as soon as it is listed for the first time, before it is known what was decided about it; nil for no call.
	Early func(*Snapshot)
	// Now is the clock; that of package clock where nil.
	Now func() time.Time
}

const (
	// ReadFor bounds what one answer reads from the cluster.
	ReadFor = 30 * time.Second
	// maxReason of a rejection or a freeze in bytes.
	maxReason = 1000
	// maxChanges that are listed about one object.
	maxChanges = 100
)

// KubeconfigExpired returns what the user of a command is shown whose credentials have expired.
func KubeconfigExpired(command string) string {
	return "The credentials of your kubeconfig have expired. Log in, and run " + command + " again."
}
