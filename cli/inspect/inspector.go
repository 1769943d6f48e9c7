package inspect

import (
	"context"
	"fmt"
	"sync"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/scope"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
	"github.com/kausality-io/function-kausality/internal/decider/builds"
)

// Options of an Inspector.
type Options struct {
	// DefaultMode of the processes in the cluster; where empty it is derived from
	// the failure policy of the webhook configuration.
	DefaultMode v1alpha1.Mode
	// Mapper finds resources of kinds; required.
	Mapper meta.RESTMapper
	// Now is the clock; time.Now where nil.
	Now func() time.Time
}

// Inspector of a cluster. It is valid as long as the context it was made with.
type Inspector struct {
	// Direct reads the cluster.
	Direct *cluster.Direct
	// User of the command, as the API server authenticates them.
	User subject.User
	// Installed: there is a webhook configuration.
	Installed bool

	options  Options
	modeFrom string
	// unread is why the webhook configuration is unknown: the user may not read it;
	// nil where it was read. What depends on it fails with this error (KR-12-19).
	unread error
	world  *world
	mapper meta.RESTMapper

	builds *builds.Builds

	mu    sync.Mutex
	set   *allowance.Set // once the policies were read
	noted []string       // errors of what the user may not read, and no decision depends on
}

// New Inspector for a connection. It reads the user and which resources are
// guarded, where the user may read that.
func New(ctx context.Context, config *rest.Config, o Options) (*Inspector, error) {
	d, err := cluster.NewDirect(ctx, config)
	if err != nil {
		return nil, err
	}
	d.WithoutCRDs = true
	if o.Now == nil {
		o.Now = clock.Now
	}
	i := &Inspector{Direct: d, options: o, modeFrom: "--default-mode", mapper: o.Mapper, builds: builds.New(d.Dynamic)}
	i.world = &world{direct: d, settled: map[parent.Ref]int64{}}
	if i.User, err = Self(ctx, d.Kubernetes); err != nil {
		return nil, err
	}
	mode, found, err := d.ReadScope(ctx)
	if kerrors.IsForbidden(err) {
		i.unread = err
		return i, nil
	}
	if err != nil {
		return nil, err
	}
	i.Installed = found
	if o.DefaultMode == "" {
		i.options.DefaultMode, i.modeFrom = mode, "the failure policy of webhook configuration "+scope.ConfigurationName
		if !found {
			i.modeFrom = "the built-in default; there is no webhook configuration " + scope.ConfigurationName
		}
	}
	return i, nil
}

// Self returns the user of the command, as the API server authenticates them. Every
// authenticated user may read it.
func Self(ctx context.Context, client kubernetes.Interface) (subject.User, error) {
	r, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return subject.User{}, fmt.Errorf("cannot read your user from the API server: %w", err)
	}
	u := r.Status.UserInfo
	return subject.User{Name: u.Username, UID: u.UID, Groups: u.Groups}, nil
}

// undecidable is why no decision can be made as the webhook makes it: the user may not read
// what is guarded, or the policies; nil where both were read (KR-12-19).
func (i *Inspector) undecidable(ctx context.Context) error {
	if i.unread != nil {
		return i.unread
	}
	if _, err := i.Direct.Unanswered(ctx); kerrors.IsForbidden(err) {
		return err
	}
	return nil
}

// Mode of an object or Namespace, and where it comes from.
type Mode struct {
	Mode v1alpha1.Mode `json:"mode"`
	// From names the annotation, policy or default that sets it.
	From string `json:"from"`
}

// ModeOf returns the mode of an object by precedence (KR-05-21).
func (i *Inspector) ModeOf(ctx context.Context, s *parent.State) (Mode, error) {
	if i.unread != nil {
		return Mode{}, i.unread
	}
	mode, own, err := i.Direct.Mode(ctx, s, i.options.DefaultMode)
	if err != nil {
		return Mode{}, err
	}
	ns, err := i.Direct.Namespace(ctx, s.Namespace)
	out := Mode{Mode: mode, From: i.modeFrom}
	if i.Direct.Scope.Removing() {
		out.From = "annotation " + scope.AnnotationKeyRemoval + " of webhook configuration " + scope.ConfigurationName + ": Kausality is being removed"
		return out, err
	}
	switch mode {
	case v1alpha1.Mode(s.Annotations[v1alpha1.AnnotationKeyMode]):
		out.From = "annotation " + v1alpha1.AnnotationKeyMode + " of the object"
	case ns.Mode:
		out.From = "annotation " + v1alpha1.AnnotationKeyMode + " of namespace " + s.Namespace
	case own.Mode:
		out.From = "Kausality policy " + own.Policy
	}
	return out, err
}

// look returns the summary of an object that was read, after learning its kind.
func (i *Inspector) look(ctx context.Context, o *unstructured.Unstructured) (*states.Object, error) {
	if err := i.Direct.Learn(ctx, o.GroupVersionKind()); err != nil {
		return nil, err
	}
	return i.Direct.Sum(o), nil
}
