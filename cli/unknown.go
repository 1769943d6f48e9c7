package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/suggest"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// didYouMean completes the error of reading what arguments name: with the known type, or
// the name of an object, that an unknown one was probably meant to be (KR-12-24). Where
// nothing is near, or nothing can be read, the error stays as it is.
func (s *session) didYouMean(ctx context.Context, args []string, err error) error {
	mapper, merr := s.mapper()
	if merr != nil || len(args) == 0 {
		return err
	}
	for _, n := range typesAndNames(args) {
		_, rerr := mapper.ResourceFor(resourceOf(n.kind))
		switch {
		case meta.IsNoMatchError(rerr):
			if near := suggest.Nearest(n.kind, s.typeNames(n.kind)); near != "" {
				return fmt.Errorf("%w; did you mean %q?", err, near)
			}
		case rerr == nil && n.name != "" && kerrors.IsNotFound(err):
			objects := completer{s}.objectsOf(ctx, n.kind)
			names := namesOf(objects)
			if slices.Contains(names, n.name) {
				continue
			}
			near := composedOf(n.name, objects)
			if one := suggest.Nearest(n.name, names); len(near) == 0 && one != "" {
				near = []string{one}
			}
			if len(near) > 0 {
				return fmt.Errorf("%w; did you mean %s?", err, alternatives(n.kind, near))
			}
		}
	}
	return err
}

// composedOf returns the names of the objects that were composed for a composite of a name, by their owner or label, else of those whose names begin
// with it.
func composedOf(name string, objects []unstructured.Unstructured) (out []string) {
	var begin []string
	for i := range objects {
		o := &objects[i]
		owner := metav1.GetControllerOf(o)
		switch {
		case owner != nil && owner.Name == name, o.GetLabels()["crossplane.io/composite"] == name:
			out = append(out, o.GetName())
		case strings.HasPrefix(o.GetName(), name):
			begin = append(begin, o.GetName())
		}
	}
	if len(out) == 0 {
		out = begin
	}
	slices.Sort(out)
	return out
}

// namesOf returns the names of objects.
func namesOf(objects []unstructured.Unstructured) []string {
	return lists.Map(objects, func(o unstructured.Unstructured) string { return o.GetName() })
}

// alternatives returns the alternatives as the end of a question: TYPE/NAME, at most maxKnown.
func alternatives(kind string, names []string) string {
	text := strings.Join(lists.Map(names[:min(len(names), maxKnown)], func(n string) string { return strconv.Quote(kind + "/" + n) }), " or ")
	if more := len(names) - maxKnown; more > 0 {
		text += fmt.Sprintf(" or one of %d more", more)
	}
	return text
}

// typeAndName of an argument; name is empty for a type alone.
type typeAndName struct{ kind, name string }

// typesAndNames returns the types and names of arguments as kubectl takes them: TYPE/NAME..., or TYPE NAME...
func typesAndNames(args []string) (out []typeAndName) {
	if !strings.Contains(args[0], "/") {
		for _, name := range args[1:] {
			out = append(out, typeAndName{args[0], name})
		}
		if len(out) == 0 {
			out = append(out, typeAndName{kind: args[0]})
		}
		return out
	}
	for _, a := range args {
		kind, name, _ := strings.Cut(a, "/")
		out = append(out, typeAndName{kind, name})
	}
	return out
}

// typeNames returns all ways to write the types that the API server serves; with groups where
// the one that is searched has a dot.
func (s *session) typeNames(like string) (out []string) {
	for r, suffix := range served(s.kube) {
		if !strings.Contains(like, ".") {
			suffix = ""
		}
		for _, name := range append([]string{r.Name, r.SingularName, strings.ToLower(r.Kind)}, r.ShortNames...) {
			if name != "" && (len(name) >= 4 || len(like) <= 5) { // a short name is no word that was meant
				out = append(out, name+suffix)
			}
		}
	}
	return out
}
