package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	authv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
	"github.com/kausality-io/function-kausality/internal/cluster/policies"
	"github.com/kausality-io/function-kausality/internal/cluster/scope"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
	"github.com/kausality-io/function-kausality/internal/onepass"
)

// Cluster puts together what a process sees of a cluster.
type Cluster struct {
	Dynamic    dynamic.Interface
	Kubernetes kubernetes.Interface
	Metadata   metadata.Interface
	Kinds      *kinds.Kinds
	States     *states.States
	Scope      *scope.Scope
	Namespaces *policies.Namespaces
	Policies   *policies.Policies
	// Claims are the keys that seal claims: none, so that all claims count, before the ClaimsKey is read.
	Claims *approval.Keys
	// ClaimsKey is read before anything else where it is set. Set it before Start.
	ClaimsKey ClaimsKey
	// Log of what concerns all of it. Set it before Start.
	Log logr.Logger

	stage    atomic.Int32
	keyed    atomic.Bool
	coverage coverage
	wholes   *wholes
}

// New Cluster for a connection. Nothing is read before Start.
func New(config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return dated{next} })
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make an HTTP client: %w", err)
	}
	c := &Cluster{wholes: newWholes(), Claims: &approval.Keys{}}
	if c.Dynamic, err = onepass.NewClient(config, client); err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	if c.Kubernetes, err = kubernetes.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	if c.Metadata, err = metadata.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, client)
	if err != nil {
		return nil, fmt.Errorf("cannot discover resources: %w", err)
	}
	if c.Kinds, err = kinds.New(c.Dynamic, mapper); err != nil {
		return nil, err
	}
	if c.Scope, err = scope.New(c.Dynamic); err != nil {
		return nil, err
	}
	if c.Policies, err = policies.New(c.Dynamic); err != nil {
		return nil, err
	}
	c.Policies.Defined = func() bool { return !c.Kinds.HasSynced() || c.Kinds.HasCRD(policies.Kind) }
	c.States, c.Namespaces = states.New(c.Dynamic, c.Kinds), policies.NewNamespaces(c.Dynamic)
	c.States.Terminating, c.States.Claims = c.Namespaces.Terminating, c.Claims
	return c, nil
}

// Start all watches; it returns when the context ended and they did.
func (c *Cluster) Start(ctx context.Context) error {
	if err := readClaimsKey(ctx, c); err != nil {
		return nil //nolint:nilerr // The context ended.
	}
	var wg sync.WaitGroup
	for _, run := range []func(context.Context){
		c.Kinds.Run, c.Scope.Run, c.Namespaces.Run, c.Policies.Run, c.States.Run, c.unwatchOrphaned, c.discoverKinds, c.compareClocks,
	} {
		wg.Go(func() { run(ctx) })
	}
	wg.Wait()
	return nil
}

func (c *Cluster) discoverKinds(ctx context.Context) {
	c.Kinds.RunDiscovery(ctx, c.Kubernetes.Discovery())
}

// NeedLeaderElection is false: every replica sees.
func (c *Cluster) NeedLeaderElection() bool { return false }

// The stages of a Cluster, which only go forward.
const (
	isStarting int32 = iota
	// isKnown: kinds and modes are.
	isKnown
	// isReady: all that is watched was read.
	isReady
)

// Ready reports what is not read yet. Once everything was, it stays ready: a kind
// that is watched later and cannot be read must not take the process out of
// service.
func (c *Cluster) Ready() error {
	switch {
	case c.stage.Load() == isReady:
		return nil
	case noClaimsKey(c) != nil:
		return noClaimsKey(c)
	case unread(c) != nil:
		return unread(c)
	case !c.States.HasSynced():
		return errors.New("the watched objects are not read yet")
	}
	c.stage.Store(isReady)
	return nil
}

// unread reports what is not read yet of that which decides in which mode an object is, and what its kind is; nil for nothing.
func unread(c *Cluster) error {
	switch {
	case !c.Kinds.HasSynced():
		return errors.New("the CRDs are not read yet")
	case !c.Scope.HasSynced():
		return errors.New("the webhook configuration is not read yet")
	case !c.Namespaces.HasSynced():
		return errors.New("the Namespaces are not read yet")
	case !c.Policies.HasSynced():
		return errors.New("the Kausality policies are not read yet")
	}
	return nil
}

const (
	// awaited is how long a request waits for a process that has just started to know kinds and modes, and awaitEvery how often it looks.
	awaited    = time.Second
	awaitEvery = 20 * time.Millisecond
)

// Await that kinds and modes are known, at most a second: an object of a kind that is not known has no gate and no secrets, and in a mode
// that is not known no decision can fail as it must (KR-13-76). The error has what is not read yet.
func Await(ctx context.Context, c *Cluster) error {
	if c.stage.Load() != isStarting { // each request needs it
		return nil
	}
	var err error
	_ = wait.PollUntilContextTimeout(ctx, awaitEvery, awaited, true, func(context.Context) (bool, error) { // what is missing is the error
		err = unread(c)
		return err == nil, nil
	})
	if err == nil {
		c.stage.CompareAndSwap(isStarting, isKnown)
	}
	return err
}

// Self returns the user name of this process. It waits for a missing
// permission.
func (c *Cluster) Self(ctx context.Context, log logr.Logger) (name string, err error) {
	err = informer.RetryForbidden(ctx, log, func(ctx context.Context) error {
		r, err := c.Kubernetes.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err == nil {
			name = r.Status.UserInfo.Username
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("cannot read our own user name from the API server: %w", err)
	}
	return name, nil
}

// Mode of an object by precedence: its annotation, its Namespace's, its policy's,
// the default.
//
// What is guarded by policies and covered by none any more has lost its guard,
// whatever the default: it only logs, so that the gate restores it. So does
// everything while Kausality is being removed.
func (c *Cluster) Mode(s *parent.State, byDefault v1alpha1.Mode) (v1alpha1.Mode, error) {
	if c.Scope.Removing() {
		return v1alpha1.ModeLog, nil
	}
	policy := c.Settings(s.Ref, s.Labels)
	if policy.Policy == "" && c.Scope.FollowsPolicies() {
		return v1alpha1.ModeLog, nil
	}
	return settings.ModeOf(s.Annotations[v1alpha1.AnnotationKeyMode], func() (v1alpha1.Mode, error) {
		if s.Namespace == "" {
			return "", nil
		}
		ns, err := c.Namespaces.Get(context.Background(), s.Namespace, false)
		return ns.Mode, err
	}, policy.Mode, byDefault)
}

// Settings of the policy that covers an object with these labels.
func (c *Cluster) Settings(ref parent.Ref, labels map[string]string) settings.Settings {
	if len(c.Policies.Set().Scopes()) == 0 {
		return settings.Settings{}
	}
	return c.settings(c.Policies.Set(), ref, labels, c.Namespaces.Labels(ref.Namespace))
}

// settings of the policy that covers an object, of some policies, given the labels of its Namespace.
func (c *Cluster) settings(of settings.Set, ref parent.Ref, labels, namespaceLabels map[string]string) settings.Settings {
	t := settings.Target{Group: ref.Group, Namespace: ref.Namespace, Labels: labels, NamespaceLabels: namespaceLabels}
	if i, err := c.Kinds.Get(ref.GroupVersionKind); err == nil {
		t.Resource = i.GVR.Resource
	} else { // discovery is away: the plural that nearly every kind has
		guess, _ := meta.UnsafeGuessKindToResource(ref.GroupVersionKind)
		t.Resource = guess.Resource
	}
	return of.For(t)
}

// maxManaged bounds how many MRs below one XR, Claim or instance are read.
const maxManaged = 2000

// Managed returns the MRs below an XR, a Claim or an instance of a graph, read live, nested ones included: those
// that it references and those whose parent it is. A user can remove references
// (KR-13-34). An instance that is not guarded is no parent (KR-18-01).
func (c *Cluster) Managed(ctx context.Context, root *parent.State) ([]*parent.State, error) {
	return managedOf(ctx, c, root, true)
}

func managedOf(ctx context.Context, c *Cluster, root *parent.State, live bool) ([]*parent.State, error) {
	return managedBelow(ctx, c, root, live, c.MayReview, func(o *parent.State) ([]parent.Ref, error) { return c.Below(o), nil })
}

func managedBelow(ctx context.Context, c *Cluster, root *parent.State, live bool, reviews func(parent.Ref) bool,
	below func(*parent.State) ([]parent.Ref, error),
) ([]*parent.State, error) {
	var out []*parent.State
	seen := map[parent.Ref]bool{} // without versions: an object may be referenced in another one than it is stored in
	todo, err := below(root)
	if err != nil {
		return nil, err
	}
	for len(todo) > 0 {
		ref := todo[0]
		todo = todo[1:]
		kind := c.Kinds.Kind(ref.GroupVersionKind)
		key := ref
		key.Version, key.UID = "", ""
		if seen[key] || kind.Role == parent.RoleNone || kind.Role == parent.RoleInstance && !reviews(ref) {
			continue
		}
		seen[key] = true
		if len(seen) > maxManaged {
			return nil, fmt.Errorf("more than %d objects below %s", maxManaged, identity.Describe(root.Ref))
		}
		o, err := c.States.Get(ctx, ref, live)
		if errors.Is(err, admission.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", identity.Describe(ref), err)
		}
		if kind.ManagementPolicies {
			out = append(out, o.State)
			continue
		}
		next, err := below(o.State)
		if err != nil {
			return nil, err
		}
		todo = append(todo, next...)
	}
	return out, nil
}

// Below returns the objects directly below an XR, a Claim or an instance of a graph, from the cache, without UIDs: those that it
// references, and the XRs, Claims, instances and MRs whose parent it is (KR-13-34). An object that is both is listed twice.
func (c *Cluster) Below(o *parent.State) []parent.Ref { return append(c.owned(o), o.Children...) }

// owned returns the children of an object among the watched kinds of Crossplane and kro, without their UIDs, as references are.
func (c *Cluster) owned(by *parent.State) []parent.Ref {
	var out []parent.Ref
	for _, i := range c.Kinds.All() {
		if i.Role == parent.RoleNone {
			continue
		}
		for _, o := range c.States.ListBelow(i.GVK, by.Ref) {
			p := o.Parent
			if p.UID == "" { // a claimRef
				p.UID = by.UID
			}
			if p.UID == by.UID && p.GroupKind() == by.GroupKind() && p.Name == by.Name && (!o.Member || parent.Linked(by, o.State.Ref, true)) {
				ref := o.State.Ref
				ref.UID = ""
				out = append(out, ref)
			}
		}
	}
	return out
}
