package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/gate/systems"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
)

// Options select the objects to restore.
type Options struct {
	Config *rest.Config
	// Names of objects, RESOURCE.GROUP/NAME or RESOURCE.GROUP/NAMESPACE/NAME, as
	// in databases.cloud.example.org/default/orders; none for all.
	Names []string
	// DryRun lists what would be restored, and restores nothing.
	DryRun bool
	// Partial: kinds that the user may not list are left out; what the others have is
	// restored, and the error names the kinds that were left out. Otherwise nothing is.
	Partial bool
	// Out gets a line for each masked object; nil for no output.
	Out io.Writer
}

// Result counts objects.
type Result struct {
	// Masked objects that were found, and Restored ones.
	Masked, Restored int
	// Pending are the masked objects whose external resource differs from the
	// desired state: their providers will revert the difference.
	Pending int
	// Unread kinds are those that the gate's own user may not list. It may list
	// every kind that is guarded or has masked objects.
	Unread int
	// Objects are the names of the restored objects, as in Options; in a dry run, of those that would be.
	Objects []string
}

// String summarizes the result for users.
func (r Result) String() string {
	s := fmt.Sprintf("%d masked, %d with pending external drift, %d restored", r.Masked, r.Pending, r.Restored)
	if r.Unread > 0 {
		s += fmt.Sprintf("; %d kinds that the gate has no access to were not read: none of their objects is guarded", r.Unread)
	}
	return s
}

// LeftOutError names the kinds that the user may not list.
type LeftOutError struct{ Kinds []string }

// Error names the kinds.
func (e *LeftOutError) Error() string {
	return "left out, since you may not list them, and objects of them may be masked: " + strings.Join(e.Kinds, ", ")
}

// errNotMasked is the error of a selected object that has no mask.
var errNotMasked = errors.New("it is not masked: there is nothing to restore")

// Ungate restores the author's value of each selected object and removes the
// gate's annotations, in one write per object. First it lists the external drift
// that the providers will revert. Webhook and gate must be stopped or in mode log,
// or they mask the objects again. An object with a deletionTimestamp is left as it
// is: without Delete in the author's policies its external resource would be
// orphaned (KR-08-14).
//
// The error joins those of the objects; Result counts what was done in any case (KR-08-17).
func Ungate(ctx context.Context, o Options) (Result, error) {
	c, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return Result{}, fmt.Errorf("cannot make a client: %w", err)
	}
	found, unread, err := o.find(ctx, c)
	left := &LeftOutError{}
	if err != nil && !errors.As(err, &left) {
		return Result{}, err
	}
	done := Result{Masked: len(found), Unread: unread}
	failed := []error{err}
	for _, m := range found {
		if len(m.differs) > 0 {
			done.Pending++
			o.printf("%s: pending external drift: %s\n", m, strings.Join(m.lines(), "; "))
		}
	}
	r := restorer{Options: o, client: c}
	for _, m := range found {
		if o.DryRun {
			o.printf("%s: would restore %s\n", m, m.wrote)
			done.Objects = append(done.Objects, m.String())
			continue
		}
		restored, err := r.restore(ctx, m)
		if restored {
			done.Restored++
			done.Objects = append(done.Objects, m.String())
			o.printf("%s: restored %s\n", m, m.wrote)
		}
		failed = append(failed, err)
	}
	return done, errors.Join(failed...)
}

func (o Options) printf(format string, args ...any) {
	if o.Out != nil {
		fmt.Fprintf(o.Out, format, args...)
	}
}

// maskedObject is a managed resource under a mask, or an object of an external
// system whose gate is kept by the gate controller.
type maskedObject struct {
	resource        schema.GroupVersionResource
	namespace, name string
	// wrote describes the author's value, for output.
	wrote string
	// author's managementPolicies, of a managed resource.
	author []string
	// differs is the external drift; nil for none.
	differs []change.Change
	// system of an object without managementPolicies; nil for managed resources.
	system systems.System
}

// String names the object as Options.Names does.
func (m maskedObject) String() string {
	name := m.name
	if m.namespace != "" {
		name = m.namespace + "/" + name
	}
	return m.resource.Resource + "." + m.resource.Group + "/" + name
}

// lines of the external drift that the provider will revert, a field each.
func (m maskedObject) lines() []string {
	out := make([]string, 0, len(m.differs))
	for _, d := range change.Fields(m.differs, 32) {
		out = append(out, fmt.Sprintf("%s: %s → %s", d.Path, d.Old, d.New))
	}
	return out
}

// maskOf reads the mask of an object. s is the system of its kind, nil for managed
// resources. ok is false if there is nothing to restore.
func maskOf(resource schema.GroupVersionResource, s systems.System, o *unstructured.Unstructured) (m maskedObject, ok bool) {
	if s == nil {
		return maskOfManaged(resource, o)
	}
	author, ok := o.GetAnnotations()[v1alpha1.AnnotationKeyExternalAuthor]
	m = maskedObject{resource: resource, namespace: o.GetNamespace(), name: o.GetName(), wrote: "what its author wrote (" + author + ")", system: s}
	if ok {
		m.differs = s.Look(o).Difference
	}
	return m, ok && o.GetDeletionTimestamp() == nil
}

// maskOfManaged resource, with the differences that its provider will revert as far as
// the author's policies permit it.
func maskOfManaged(resource schema.GroupVersionResource, o *unstructured.Unstructured) (maskedObject, bool) {
	author, ok := mask.ParseAuthor(o.GetAnnotations()[v1alpha1.AnnotationKeyManagementPolicies])
	m := maskedObject{resource: resource, namespace: o.GetNamespace(), name: o.GetName(), author: author, wrote: mask.FormatAuthor(author)}
	if !ok || o.GetDeletionTimestamp() != nil {
		return m, false
	}
	if mask.Gives(author, v1alpha1.VerbUpdate) {
		m.differs = external.Difference(o.Object)
	}
	if external.Gone(external.SyncedMessage(o.Object)) && mask.Gives(author, v1alpha1.VerbCreate) {
		m.differs = []change.Change{{Path: external.Exists, Verb: change.Mutate, Old: false, New: true}}
	}
	return m, true
}

// mayHold reports whether objects of a resource are selected.
func (o Options) mayHold(resource string) bool {
	return len(o.Names) == 0 || slices.ContainsFunc(o.Names, func(name string) bool { return strings.HasPrefix(name, resource+"/") })
}

// find the masked objects that are selected, sorted by name. unread counts the
// kinds that the gate's own user may not list; see Result.Unread. A selected name
// without a mask is an error. With Partial, kinds that may not be listed are a LeftOutError
// beside what was found (KR-12-26).
func (o Options) find(ctx context.Context, c dynamic.Interface) (out []maskedObject, unread int, err error) {
	kinds, err := kinds.Where(ctx, c, func(i kinds.Info) bool { return i.ManagementPolicies || systems.For(i.GVK) != nil })
	if err != nil {
		return nil, 0, err
	}
	asGate := sync.OnceValue(func() bool { return o.runsAsGate(ctx) })
	left := &LeftOutError{}
	for _, k := range kinds {
		if !o.mayHold(k.Resource) {
			continue
		}
		var err error
		for u, failed := range informer.Items(ctx, c.Resource(k.GVR), informer.PageSize) {
			if err = failed; err != nil {
				break
			}
			if m, ok := maskOf(k.GVR, systems.For(k.GVK), u); ok && (len(o.Names) == 0 || slices.Contains(o.Names, m.String())) {
				out = append(out, m)
			}
		}
		if kerrors.IsForbidden(err) && asGate() {
			unread++
			continue
		}
		if kerrors.IsForbidden(err) && o.Partial {
			left.Kinds = append(left.Kinds, k.Resource)
			continue
		}
		if err != nil && !kerrors.IsNotFound(err) { // NotFound: the kind is gone, and all its objects
			return nil, 0, fmt.Errorf("cannot list %s: %w", k.Resource, err)
		}
	}
	slices.SortFunc(out, func(a, b maskedObject) int { return strings.Compare(a.String(), b.String()) })
	for _, name := range o.Names {
		if !slices.ContainsFunc(out, func(m maskedObject) bool { return m.String() == name }) {
			return nil, 0, fmt.Errorf("%s: %w", name, errNotMasked)
		}
	}
	if len(left.Kinds) > 0 {
		return out, unread, left
	}
	return out, unread, nil
}
