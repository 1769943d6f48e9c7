package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
	"github.com/kausality-io/function-kausality/internal/cluster/policies"
	"github.com/kausality-io/function-kausality/internal/cluster/scope"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// directTimeout bounds one read of a tool: a person waits, no request does.
const directTimeout = 15 * time.Second

// Direct is a Cluster that watches nothing: what a command needs is read once.
// The CRD of a kind is read when the kind is first needed. It lives as long
// as the context it was made with.
type Direct struct {
	*Cluster
	// WithoutCRDs: where the user may not read CRDs, roles and scopes of kinds are those of
	// discovery, and Unread names what is unknown then (KR-12-19). Otherwise that is an error.
	WithoutCRDs bool

	mu      sync.Mutex
	learned map[schema.GroupVersionKind]bool
	failed  error
	// unread sentences, in the order in which they were found.
	unread []string
	// namespaces that were read.
	namespaces map[string]policies.Namespace

	policies       sync.Once
	policiesFailed error
	// unanswered is why no webhook answers, as the policies report it; "" where one does, or that is unknown.
	unanswered string
}

// NewDirect connects to a cluster; nothing is read yet.
func NewDirect(ctx context.Context, config *rest.Config) (*Direct, error) {
	c, err := New(config)
	if err != nil {
		return nil, err
	}
	d := &Direct{Cluster: c, learned: map[schema.GroupVersionKind]bool{}, namespaces: map[string]policies.Namespace{}}
	c.States.Timeout = directTimeout
	c.Kinds.Missing = func(gvk schema.GroupVersionKind) {
		if err := d.Learn(ctx, gvk); err != nil {
			d.Fail(err)
		}
	}
	return d, nil
}

// Fail remembers what could not be read where the caller has no error to return.
func (d *Direct) Fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = errors.Join(d.failed, err)
}

// Failed returns what could not be read where the caller had no error to return, and
// forgets it; nil where everything was.
func (d *Direct) Failed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.failed
	d.failed = nil
	return err
}

// Learn the CRD of a kind; nothing of a kind that no CRD defines.
func (d *Direct) Learn(ctx context.Context, gvk schema.GroupVersionKind) error {
	d.mu.Lock()
	known := d.learned[gvk]
	d.mu.Unlock()
	if known {
		return nil
	}
	m, err := d.Kinds.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("cannot find the resource of kind %s: %w", gvk.GroupKind(), err)
	}
	if err == nil && gvk.Group != "" {
		err := d.learnCRD(ctx, m.Resource.GroupResource().String())
		if d.WithoutCRDs && kerrors.IsForbidden(err) {
			err = d.learnDiscovered(m, err)
		}
		if err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.learned[gvk] = true
	return nil
}

// learnCRD reads one CRD. A resource without a CRD is no error.
func (d *Direct) learnCRD(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	crd, err := d.Dynamic.Resource(kinds.CRDs).Get(ctx, name, metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		return nil // built in, or of an aggregated API server
	}
	if err != nil {
		return fmt.Errorf("cannot read the CRD %s, which defines the role of its kind in Crossplane: %w", name, err)
	}
	d.Kinds.LearnCRD(crd)
	return nil
}

// EachKind calls f for each kind that a CRD defines, in its stored version. CRDs
// are read a page at a time, and only what f sees of them is kept.
func (d *Direct) EachKind(ctx context.Context, page int64, f func(kinds.Info) error) error {
	for crd, err := range informer.Items(ctx, d.Dynamic.Resource(kinds.CRDs), page) {
		if d.WithoutCRDs && kerrors.IsForbidden(err) {
			return d.eachDiscovered(err, f)
		}
		if err != nil {
			return fmt.Errorf("cannot list CRDs: %w", err)
		}
		for _, info := range d.remember(crd) {
			if !info.Storage {
				continue
			}
			if err := f(info); err != nil {
				return err
			}
		}
	}
	return nil
}

// remember the CRDs of kinds with a role in Crossplane.
func (d *Direct) remember(crd *unstructured.Unstructured) []kinds.Info {
	infos := kinds.InfosOf(crd)
	if len(infos) == 0 || infos[0].Role == parent.RoleNone {
		return infos
	}
	d.Kinds.LearnCRD(crd)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range infos {
		d.learned[i.GVK] = true
	}
	return infos
}

// ReadScope reads which resources are guarded, and the mode that the failure
// policy of the webhook stands for: Fail is installed for enforce, Ignore for
// log. found is false where the webhook is not installed.
func (d *Direct) ReadScope(ctx context.Context) (mode v1alpha1.Mode, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	o, err := d.Dynamic.Resource(scope.Configurations).Get(ctx, scope.ConfigurationName, metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		return v1alpha1.ModeLog, false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("cannot read the webhook configuration %s, which defines what is guarded: %w", scope.ConfigurationName, err)
	}
	if _, err = scope.NewFixed(o); err != nil {
		return "", false, err
	}
	d.Scope.Set(o)
	return failureMode(o), true, nil
}

// defaultWebhook is the webhook for what no policy covers.
const defaultWebhook = "admission.kausality.io"

// failureMode returns the mode that follows from the failure policy of the webhook
// for what no policy covers or, without such a webhook, from those of all webhooks.
func failureMode(o *unstructured.Unstructured) v1alpha1.Mode {
	hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks") // the API server validated it
	mode := v1alpha1.ModeLog
	for _, h := range hooks {
		m, _ := h.(map[string]any)
		fails := m["failurePolicy"] == "Fail"
		switch {
		case m["name"] == defaultWebhook && fails:
			return v1alpha1.ModeEnforce
		case m["name"] == defaultWebhook:
			return v1alpha1.ModeLog
		case fails:
			mode = v1alpha1.ModeEnforce
		}
	}
	return mode
}

// Mode of an object by precedence, and the settings of the policy that covers
// it. Policies and Namespaces are read when first needed.
func (d *Direct) Mode(ctx context.Context, s *parent.State, byDefault v1alpha1.Mode) (v1alpha1.Mode, settings.Settings, error) {
	own, err := d.Settings(ctx, s.Ref, s.Labels)
	if err != nil {
		return "", own, err
	}
	if d.Scope.Removing() {
		return v1alpha1.ModeLog, own, nil
	}
	m, err := settings.ModeOf(s.Annotations[v1alpha1.AnnotationKeyMode], func() (v1alpha1.Mode, error) {
		ns, err := d.namespace(ctx, s.Namespace)
		return ns.Declared.Mode, err
	}, own.Mode, byDefault)
	return m, own, err
}

// Namespace returns what is declared on a Namespace; zero where it does not exist.
func (d *Direct) Namespace(ctx context.Context, name string) (settings.Namespace, error) {
	ns, err := d.namespace(ctx, name)
	return ns.Declared, err
}

// Settings of the policy that covers an object with these labels.
func (d *Direct) Settings(ctx context.Context, ref parent.Ref, labels map[string]string) (settings.Settings, error) {
	d.policies.Do(func() { d.policiesFailed = d.readPolicies(ctx) })
	if d.policiesFailed != nil || len(d.Policies.Set().Scopes()) == 0 {
		return settings.Settings{}, d.policiesFailed
	}
	ns, err := d.namespace(ctx, ref.Namespace)
	if err != nil {
		return settings.Settings{}, err
	}
	return d.settings(d.Policies.Set(), ref, labels, ns.Labels), nil
}

// Initialized returns the condition types that report a kind as initialized by the
// policies; nil for none.
func (d *Direct) Initialized(ctx context.Context, gk schema.GroupKind) ([]string, error) {
	d.policies.Do(func() { d.policiesFailed = d.readPolicies(ctx) })
	if d.policiesFailed != nil {
		return nil, d.policiesFailed
	}
	return d.Policies.Initialized(gk), nil
}

// readPolicies once. Without the CRD, no policy exists.
func (d *Direct) readPolicies(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	list, err := d.Dynamic.Resource(policies.Resource).List(ctx, metav1.ListOptions{})
	if kerrors.IsNotFound(err) { // no CRD, no policies
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read the Kausality policies: %w", err)
	}
	for i := range list.Items {
		d.Policies.Learn(&list.Items[i])
		d.unanswered = cmp.Or(d.unanswered, unansweredBy(&list.Items[i]))
	}
	return nil
}

// unansweredBy returns the message of a policy's condition Answering if it is False; "" otherwise.
func unansweredBy(policy *unstructured.Unstructured) string {
	conditions, _, err := unstructured.NestedSlice(policy.Object, "status", "conditions")
	if err != nil {
		return "" // not of the policy controller
	}
	for _, e := range conditions {
		c, _ := e.(map[string]any)
		if c["type"] == v1alpha1.KausalityAnswering && c["status"] == string(metav1.ConditionFalse) {
			text, _ := c["message"].(string)
			return cmp.Or(text, "no replica of the webhook is running")
		}
	}
	return ""
}

// Unanswered returns why no webhook answers, as a clause; "" if a webhook answers, or that is unknown (KR-12-11).
func (d *Direct) Unanswered(ctx context.Context) (string, error) {
	d.policies.Do(func() { d.policiesFailed = d.readPolicies(ctx) })
	return d.unanswered, d.policiesFailed
}

// namespace as it was when first needed; empty where it does not exist.
func (d *Direct) namespace(ctx context.Context, name string) (policies.Namespace, error) {
	d.mu.Lock()
	ns, ok := d.namespaces[name]
	d.mu.Unlock()
	if ok || name == "" {
		return ns, nil
	}
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	o, err := policies.ReadNamespace(ctx, d.Dynamic, name)
	if kerrors.IsForbidden(err) { // components may list and watch, and users may have get alone
		o, err = d.Dynamic.Resource(policies.NamespaceResource).Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil && !kerrors.IsNotFound(err) {
		return ns, fmt.Errorf("cannot read namespace %s: %w", name, err)
	}
	if err == nil && o != nil {
		ns = *policies.NamespaceOf(o)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.namespaces[name] = ns
	return ns, nil
}

// Sum up an object that was read already.
func (d *Direct) Sum(o *unstructured.Unstructured) *states.Object { return d.States.Sum(o) }

// maxHolders bounds the chain of parents that is searched for approvals.
const maxHolders = 6

// Holders of approvals for an object, nearest first: itself, its parent, and so
// on; live reads past the cache.
func (c *Cluster) Holders(ctx context.Context, o *states.Object, live bool) ([]identity.Holder, error) {
	return c.holders(ctx, o, live, c.Reviews, func(ctx context.Context, s *parent.State) (identity.Covering, error) {
		out := identity.Covering{Policies: c.Settings(s.Ref, s.Labels).Freezes}
		if s.Namespace == "" {
			return out, nil
		}
		var err error
		out.Namespace, err = c.Namespaces.Get(ctx, s.Namespace, live)
		return out, err
	})
}

// Holders as of a Cluster.
func (d *Direct) Holders(ctx context.Context, o *states.Object, live bool) ([]identity.Holder, error) {
	return d.holders(ctx, o, live, func(s *parent.State) bool { return d.Reviews(ctx, s) }, d.Covering)
}

// Covering returns what may freeze an object from outside.
func (d *Direct) Covering(ctx context.Context, s *parent.State) (identity.Covering, error) {
	own, err := d.Settings(ctx, s.Ref, s.Labels)
	if err != nil {
		return identity.Covering{}, err
	}
	ns, err := d.Namespace(ctx, s.Namespace)
	return identity.Covering{Namespace: ns, Policies: own.Freezes}, err
}

func (c *Cluster) holders(ctx context.Context, o *states.Object, live bool, reviews func(*parent.State) bool,
	covering func(context.Context, *parent.State) (identity.Covering, error),
) ([]identity.Holder, error) {
	var out []identity.Holder
	for at := o; ; {
		by, err := covering(ctx, at.State)
		if err != nil {
			return out, fmt.Errorf("cannot read what may freeze %s: %w", identity.Describe(at.State.Ref), err)
		}
		holder := identity.Holder{State: at.State, Kind: c.Kinds.Kind(at.GroupVersionKind), Unguarded: at != o && !reviews(at.State), Covering: by}
		if at.Role.Composed() {
			holder.Whole = wholeLater(ctx, c, at.State)
		}
		out = append(out, holder)
		if at.Parent.Name == "" || len(out) >= maxHolders {
			return out, nil
		}
		up, err := c.States.Get(ctx, at.Parent, live)
		// Who may edit an object may give it an owner of any kind: one that is not guarded, and that we have no right to read, holds nothing.
		if errors.Is(err, admission.ErrNotFound) || kerrors.IsForbidden(err) && !c.MayReview(at.Parent) {
			return out, nil
		}
		if err != nil {
			return out, fmt.Errorf("cannot read %s: %w", identity.Describe(at.Parent), err)
		}
		if !parent.Linked(up.State, at.Ref, at.Member) {
			return out, nil
		}
		at = up
	}
}
