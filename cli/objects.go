package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// target is an object that the command line or a Drift names, with the client
// that reads and writes it.
type target struct {
	*unstructured.Unstructured
	client dynamic.ResourceInterface
	// resource is its plural with group, as in xdatabases.example.org.
	resource string
}

// slashed is TYPE/NAME as kubectl prints it.
func (t target) slashed() string {
	return slashed(t.GroupVersionKind(), t.GetName())
}

// slashed is KIND.GROUP/NAME in lower case, as kubectl prints it.
func slashed(kind schema.GroupVersionKind, name string) string {
	return strings.ToLower(kind.Kind) + channel.Part(".", kind.Group, "") + "/" + name
}

// arg names the object on a command line, with its namespace.
func (t target) arg() string {
	return channel.Part("-n ", t.GetNamespace(), " ") + t.resource + "/" + t.GetName()
}

// ref identifies the object in the packages below admission.
func (t target) ref() parent.Ref { return parent.RefOf(t.Unstructured) }

// describe names the object in a sentence.
func (t target) describe() string { return identity.Describe(t.ref()) }

// object returns the object that the arguments name: TYPE/NAME or TYPE NAME.
func (s *session) object(cmd *cobra.Command, args []string) (target, error) {
	list, err := s.objects(cmd, args)
	if err != nil {
		return target{}, err
	}
	if len(list) != 1 {
		return target{}, usageError{fmt.Errorf("%s takes one object, not %d; see %s --help", cmd.CommandPath(), len(list), cmd.CommandPath())}
	}
	return list[0], nil
}

// objects returns the objects that the arguments name, each once, read live (KR-12-25).
func (s *session) objects(cmd *cobra.Command, args []string) ([]target, error) {
	if len(args) == 0 {
		return nil, usageError{fmt.Errorf("name an object as TYPE/NAME; see %s --help", cmd.CommandPath())}
	}
	if len(args) == 1 && !strings.Contains(args[0], "/") {
		return nil, usageError{fmt.Errorf("%q is no object: name one as TYPE/NAME, as in xdatabase/orders", args[0])}
	}
	for _, a := range args {
		if slashes := strings.Contains(a, "/"); slashes != strings.Contains(args[0], "/") {
			return nil, usageError{fmt.Errorf("%q does not fit %q: name objects as TYPE/NAME each, or as one TYPE with their NAMES; see %s --help",
				a, args[0], cmd.CommandPath())}
		}
	}
	return s.read(cmd.Context(), args, func(b *resource.Builder) *resource.Builder { return b })
}

// read reads the objects that the arguments and the further settings of the builder
// select.
func (s *session) read(ctx context.Context, args []string, configure func(*resource.Builder) *resource.Builder) ([]target, error) {
	ns, err := s.namespace()
	if err != nil {
		return nil, err
	}
	b := resource.NewBuilder(s.kube).Unstructured().NamespaceParam(ns).DefaultNamespace().ResourceTypeOrNameArgs(false, args...)
	infos, err := configure(b).Latest().Flatten().Do().Infos()
	if err != nil {
		return nil, s.didYouMean(ctx, args, fmt.Errorf("cannot read %s: %w", strings.Join(args, " "), err))
	}
	conn, err := s.connection()
	if err != nil {
		return nil, err
	}
	out, have := make([]target, 0, len(infos)), map[string]bool{}
	for _, i := range infos {
		u, ok := i.Object.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("cannot read %s: unexpected type %T", i.Name, i.Object)
		}
		if t := newTarget(conn, i.Mapping, u); !have[t.arg()] {
			have[t.arg()] = true
			out = append(out, t)
		}
	}
	return out, nil
}

// newTarget returns the target of an object whose resource is known.
func newTarget(client dynamic.Interface, m *meta.RESTMapping, u *unstructured.Unstructured) target {
	return target{Unstructured: u, client: inspect.ClientOf(client, m, u.GetNamespace()), resource: m.Resource.GroupResource().String()}
}

// target returns the target of a reference. The object is not read: it has a kind, a name and a
// UID, and nothing else.
func (s *session) target(ref parent.Ref) (target, error) {
	conn, err := s.connection()
	if err != nil {
		return target{}, err
	}
	m, err := conn.mapper.RESTMapping(ref.GroupKind(), ref.Version)
	if err != nil {
		return target{}, fmt.Errorf("cannot find the resource of kind %s: %w", ref.GroupKind(), err)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(ref.GroupVersionKind)
	u.SetName(ref.Name)
	u.SetUID(ref.UID)
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		u.SetNamespace(ref.Namespace)
	}
	return newTarget(conn, m, u), nil
}

// approvalHolder returns the object whose annotations hold approvals of another one: that of
// its decisions where it is guarded, else itself if it is a managed resource.
func (s *session) approvalHolder(ctx context.Context, i *inspect.Inspector, t target) (target, error) {
	o, up, err := decisionHolder(ctx, i, t)
	switch {
	case err != nil:
		return target{}, err
	case up == nil || o.Role == parent.RoleManaged && !i.Direct.Reviews(ctx, up.State):
		return t, nil
	case !i.Direct.Reviews(ctx, up.State):
		return target{}, errUnguarded(identity.Describe(up.State.Ref))
	}
	return s.target(up.State.Ref)
}

// decisionHolder sums up an object and the one whose annotations hold decisions about it:
// its parent, else nil for a managed resource, which holds its own.
func decisionHolder(ctx context.Context, i *inspect.Inspector, t target) (o, up *states.Object, err error) {
	if err := i.Direct.Learn(ctx, t.GroupVersionKind()); err != nil {
		return nil, nil, err
	}
	o = i.Direct.Sum(t.Unstructured)
	if o.Parent.Name != "" {
		up, err = i.Direct.States.Get(ctx, o.Parent, true)
		if errors.Is(err, admission.ErrNotFound) {
			return nil, nil, fmt.Errorf("the parent of %s, %s, does not exist", t.describe(), identity.Describe(o.Parent))
		}
		if err != nil {
			return nil, nil, fmt.Errorf("cannot read %s: %w", identity.Describe(o.Parent), err)
		}
		if parent.Linked(up.State, o.State.Ref, o.Member) {
			return o, up, nil
		}
	}
	if o.Role == parent.RoleManaged {
		return o, nil, nil
	}
	return nil, nil, noParentError{t.describe()}
}

// errUnguarded refuses an approval on an object on which none counts (KR-13-15).
func errUnguarded(object string) error {
	return fmt.Errorf("approvals on %s do not count, since Kausality does not guard it: guard it by a Kausality policy, "+
		"or allow the change by an ApprovalPolicy or a ClusterApprovalPolicy", object)
}

// noParentError refuses a decision about an object whose changes no parent's controller
// makes.
type noParentError struct{ object string }

// Error names the object.
func (e noParentError) Error() string {
	return e.object + " has no controlling parent, so there is no controller whose changes could be decided about"
}

// resourceOf returns the resource of a TYPE of the command line, as in xdatabases or
// xdatabases.example.org.
func resourceOf(kind string) schema.GroupVersionResource {
	name, group, _ := strings.Cut(kind, ".")
	return schema.GroupVersionResource{Group: group, Resource: name}
}
