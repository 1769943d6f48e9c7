package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kausality-io/function-kausality/admission/suggest"
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
			names := completer{s}.list(ctx, n.kind)
			if near := suggest.Nearest(n.name, names); near != "" && !slices.Contains(names, n.name) {
				return fmt.Errorf("%w; did you mean %q?", err, n.kind+"/"+near)
			}
		}
	}
	return err
}

// typeAndName of an argument; name is empty for a type alone.
type typeAndName struct{ kind, name string }

// typesAndNames of arguments as kubectl takes them: TYPE/NAME..., or TYPE NAME...
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

// typeNames are all ways to write the types that the API server serves; with groups where
// the one that is searched has a dot.
func (s *session) typeNames(like string) (out []string) {
	client, err := s.kube.ToDiscoveryClient()
	if err != nil {
		return nil
	}
	lists, err := client.ServerPreferredResources()
	if err != nil && len(lists) == 0 {
		return nil
	}
	for _, l := range lists {
		group, _, grouped := strings.Cut(l.GroupVersion, "/")
		for _, r := range l.APIResources {
			for _, name := range append([]string{r.Name, r.SingularName, strings.ToLower(r.Kind)}, r.ShortNames...) {
				switch {
				case name == "" || len(name) < 4 && len(like) > 5: // a short name is no word that was meant
				case strings.Contains(like, ".") && grouped:
					out = append(out, name+"."+group)
				default:
					out = append(out, name)
				}
			}
		}
	}
	return out
}
