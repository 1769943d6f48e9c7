package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
	"github.com/kausality-io/function-kausality/gate/systems"
)

// Ungating says which managed resources to take out of the gate's hands. The
// webhook and the gate must not run, or run in mode log, or they mask again.
type Ungating struct {
	Config *rest.Config
	// Names of managed resources, as in databases.cloud.example.org/orders, with
	// a namespace in front of the name where there is one
	// (databases.cloud.example.org/default/orders); none for all.
	Names []string
	// DryRun lists, and restores nothing.
	DryRun bool
	// Out takes a line for each managed resource.
	Out io.Writer
}

// Ungated counts what Ungate did.
type Ungated struct {
	// Masked managed resources that were found, and Restored ones.
	Masked, Restored int
	// Pending of them whose external resource differs from what is asked for:
	// their providers will change it back.
	Pending int
	// Unread kinds that the gate's own user may not list: it may list all that is
	// guarded, and all that is masked still.
	Unread int
}

// String sums it up for people.
func (u Ungated) String() string {
	s := fmt.Sprintf("%d masked, %d with pending external drift, %d restored", u.Masked, u.Pending, u.Restored)
	if u.Unread > 0 {
		s += fmt.Sprintf("; %d kinds that the gate has no access to were not looked at: nothing of them is guarded", u.Unread)
	}
	return s
}

// errNotMasked is of a name that is given and has nothing to restore.
var errNotMasked = errors.New("it is not masked: there is nothing to restore")

// pageSize bounds how many objects are read at once.
const pageSize = 500

// Ungate restores what the authors of managed resources wrote into
// spec.managementPolicies, verbatim, and takes our two gate annotations away; and
// so it does with objects of external systems that have a gate of another kind. It
// lists all external drift that its providers will revert then before it
// restores the first. It may be run again at any time, and by several at once:
// what is restored is left alone, and nothing is restored that changed since it
// was read. A managed resource with a deletionTimestamp is left as it is.
func Ungate(ctx context.Context, u Ungating) (Ungated, error) {
	c, err := dynamic.NewForConfig(u.Config)
	if err != nil {
		return Ungated{}, fmt.Errorf("cannot make a client: %w", err)
	}
	found, unread, err := u.find(ctx, c)
	if err != nil {
		return Ungated{}, err
	}
	done := Ungated{Masked: len(found), Unread: unread}
	for _, m := range found {
		if len(m.differs) > 0 {
			done.Pending++
			u.say("%s: pending external drift: %s\n", m, strings.Join(m.lines(), "; "))
		}
	}
	var failed []error
	r := restorer{Ungating: u, client: c}
	for _, m := range found {
		if u.DryRun {
			u.say("%s: would restore %s\n", m, m.wrote)
			continue
		}
		restored, err := r.restore(ctx, m)
		if restored {
			done.Restored++
			u.say("%s: restored %s\n", m, m.wrote)
		}
		failed = append(failed, err)
	}
	return done, errors.Join(failed...)
}

func (u Ungating) say(format string, args ...any) {
	if u.Out != nil {
		fmt.Fprintf(u.Out, format, args...)
	}
}

// maskedResource is a managed resource under a mask, or an object of an external
// system that is held.
type maskedResource struct {
	resource        schema.GroupVersionResource
	namespace, name string
	// wrote is what its author did, for people.
	wrote   string
	author  []string
	differs []change.Change
	// system of an object without managementPolicies; nil for managed resources.
	system systems.System
}

// String names it as Names does.
func (m maskedResource) String() string {
	name := m.name
	if m.namespace != "" {
		name = m.namespace + "/" + name
	}
	return m.resource.Resource + "." + m.resource.Group + "/" + name
}

func (m maskedResource) lines() []string {
	out := make([]string, 0, len(m.differs))
	for _, d := range change.Fields(m.differs, 32, false) {
		out = append(out, fmt.Sprintf("%s: %s → %s", d.Path, d.Old, d.New))
	}
	return out
}

// look at an object of a kind, with its system where it has no
// managementPolicies; ok is false where there is nothing to restore.
func look(resource schema.GroupVersionResource, s systems.System, o *unstructured.Unstructured) (maskedResource, bool) {
	if s == nil {
		return masked(resource, o)
	}
	author, ok := o.GetAnnotations()[v1alpha1.AnnotationKeyExternalAuthor]
	m := maskedResource{resource: resource, namespace: o.GetNamespace(), name: o.GetName(), wrote: "what its author wrote (" + author + ")", system: s}
	if ok {
		m.differs = s.Look(o).Difference
	}
	return m, ok && o.GetDeletionTimestamp() == nil
}

// masked reads a managed resource; ok is false where there is nothing to restore.
func masked(resource schema.GroupVersionResource, o *unstructured.Unstructured) (maskedResource, bool) {
	author, ok := mask.ParseAuthor(o.GetAnnotations()[v1alpha1.AnnotationKeyManagementPolicies])
	m := maskedResource{resource: resource, namespace: o.GetNamespace(), name: o.GetName(), author: author, wrote: mask.FormatAuthor(author)}
	if !ok || o.GetDeletionTimestamp() != nil {
		return m, false
	}
	if mask.Gives(author, v1alpha1.VerbUpdate) {
		m.differs = external.Difference(o.Object)
	}
	s := parent.Sum(o, parent.RoleManaged)
	if external.Gone(message(o)) && !s.True("Synced") && mask.Gives(author, v1alpha1.VerbCreate) {
		m.differs = []change.Change{{Path: external.Exists, Verb: change.Mutate, Old: false, New: true}}
	}
	return m, true
}

// message of the Synced condition.
func message(o *unstructured.Unstructured) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions") // a status of another shape has none
	for _, e := range list {
		if c, ok := e.(map[string]any); ok && c["type"] == "Synced" {
			text, _ := c["message"].(string)
			return text
		}
	}
	return ""
}

// asksFor objects of a resource: where names are given, others are not read.
func (u Ungating) asksFor(resource string) bool {
	return len(u.Names) == 0 || slices.ContainsFunc(u.Names, func(name string) bool { return strings.HasPrefix(name, resource+"/") })
}

// find the masked resources, sorted; unread is how many kinds were passed over.
func (u Ungating) find(ctx context.Context, c dynamic.Interface) (out []maskedResource, unread int, err error) {
	kinds, err := cluster.KindsWhere(ctx, c, func(i cluster.Info) bool { return i.ManagementPolicies || systems.For(i.GVK) != nil })
	if err != nil {
		return nil, 0, err
	}
	byGate := sync.OnceValue(func() bool { return u.asGate(ctx) })
	for _, k := range kinds {
		if !u.asksFor(k.Resource) {
			continue
		}
		err := eachPage(ctx, c.Resource(k.GVR), func(o *unstructured.Unstructured) {
			if m, ok := look(k.GVR, systems.For(k.GVK), o); ok && (len(u.Names) == 0 || slices.Contains(u.Names, m.String())) {
				out = append(out, m)
			}
		})
		if kerrors.IsForbidden(err) && byGate() {
			unread++
			continue
		}
		if err != nil && !kerrors.IsNotFound(err) { // the kind is gone by now, and all of it
			return nil, 0, fmt.Errorf("cannot list %s: %w", k.Resource, err)
		}
	}
	slices.SortFunc(out, func(a, b maskedResource) int { return strings.Compare(a.String(), b.String()) })
	for _, name := range u.Names {
		if !slices.ContainsFunc(out, func(m maskedResource) bool { return m.String() == name }) {
			return nil, 0, fmt.Errorf("%s: %w", name, errNotMasked)
		}
	}
	return out, unread, nil
}

func eachPage(ctx context.Context, r dynamic.ResourceInterface, f func(*unstructured.Unstructured)) error {
	for token := ""; ; {
		list, err := r.List(ctx, metav1.ListOptions{Limit: pageSize, Continue: token})
		if err != nil {
			return err
		}
		for i := range list.Items {
			f(&list.Items[i])
		}
		if token = list.GetContinue(); token == "" {
			return nil
		}
	}
}
