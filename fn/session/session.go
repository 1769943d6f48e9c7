package session

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/carry"
	"github.com/kausality-io/function-kausality/admission/change"
	input "github.com/kausality-io/function-kausality/fn/input/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/results"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// maxNamed is how many objects a warning names.
const maxNamed = 3

// Session of the calls that the resources of a composite lead to. Its zero value neither changes nor checks anything.
type Session struct {
	per input.AWSSessionPer
	xr  *unstructured.Unstructured
	// value of the tag; "" where there is none.
	value string
}

// Of returns the Session that an Input configures for a composite; per is "" for none.
func Of(per input.AWSSessionPer, xr *unstructured.Unstructured) Session {
	s := Session{per: per, xr: xr}
	switch per {
	case input.AWSSessionPerXR:
		s.value = carry.SessionOf(xr.GroupVersionKind().GroupKind(), xr.GetNamespace(), xr.GetName())
	case input.AWSSessionPerNamespace:
		s.value = carry.TagValue(xr.GetNamespace())
	case input.AWSSessionPerClaim:
		s.value = carry.SessionOfClaim(xr)
	}
	return s
}

// Write returns the request with the tag in the desired ProviderConfigs, and what users have to know of those that cannot have it, and of shared ones
// (KR-08-70, KR-08-71). It warns of replaced values in the response alone: a later step of the pipeline finds none. The request is not modified.
func (s Session) Write(req *fnv1.RunFunctionRequest, rsp *fnv1.RunFunctionResponse) (*fnv1.RunFunctionRequest, []string) {
	switch {
	case s.per == "":
		return req, nil
	case s.value == "":
		return req, []string{fmt.Sprintf("external.aws.session has no effect: the composite has no %s; no ProviderConfig is changed or checked", s.per)}
	}
	var roleless, faulty, replaced []string
	written := map[string]*fnv1.Resource{}
	for _, o := range s.composed(req) {
		content, others, err := carry.WithSession(o.content, s.value)
		switch {
		case errors.Is(err, carry.ErrNoRole):
			roleless = append(roleless, o.config.String())
		case err != nil:
			faulty = append(faulty, fmt.Sprintf("%s (%v)", o.config, err))
		default:
			of := req.GetDesired().GetResources()[o.name]
			written[o.name] = &fnv1.Resource{Resource: ssa.ToStruct(content), ConnectionDetails: of.GetConnectionDetails(), Ready: of.GetReady()}
		}
		for _, other := range others {
			replaced = append(replaced, fmt.Sprintf("%q of %s", results.Cut(other, carry.MaxTagKey), o.config))
		}
	}
	notes := slices.Concat(
		about(roleless, "%s assumes no role, so that its calls have no session tag "+carry.TagSession+": set spec.assumeRoleChain in the Composition"),
		about(faulty, "the session tag "+carry.TagSession+" cannot be set: %s"), s.check(req))
	if w := about(replaced, "the session tag "+carry.TagSession+" is written by Kausality alone; values of the Composition are replaced: %s"); len(w) > 0 {
		results.Warn(rsp, []results.Warning{{Reason: results.Reason, Text: w[0]}}, 1, "")
	}
	return with(req, written), notes
}

// about returns a note that names the first of a list; none for an empty one.
func about(names []string, format string) []string {
	if len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf(format, change.First(names, maxNamed))}
}

// with returns a request with other desired resources.
func with(req *fnv1.RunFunctionRequest, written map[string]*fnv1.Resource) *fnv1.RunFunctionRequest {
	if len(written) == 0 {
		return req
	}
	desired := maps.Clone(req.GetDesired().GetResources())
	maps.Copy(desired, written)
	return &fnv1.RunFunctionRequest{
		Meta: req.GetMeta(), Observed: req.GetObserved(), Input: req.GetInput(), Context: req.GetContext(), Credentials: req.GetCredentials(),
		Desired:           &fnv1.State{Composite: req.GetDesired().GetComposite(), Resources: desired},
		ExtraResources:    req.GetExtraResources(), //nolint:staticcheck // For Crossplane before 2.2.
		RequiredResources: req.GetRequiredResources(), RequiredSchemas: req.GetRequiredSchemas(),
	}
}

// object is a desired one of AWS.
type object struct {
	// name in the pipeline.
	name    string
	content map[string]any
	// config is the object itself, or what it refers to.
	config carry.Config
}

// composed returns the ProviderConfigs that the Composition composes, by their names in the pipeline. The name of one is yet unknown where it is to be
// generated.
func (s Session) composed(req *fnv1.RunFunctionRequest) (out []object) {
	for _, name := range slices.Sorted(maps.Keys(req.GetDesired().GetResources())) {
		u := ssa.Unstructured(ssa.Object(req.GetDesired().GetResources()[name].GetResource()))
		if u == nil || !carry.HasChain(u.GroupVersionKind().GroupKind()) {
			continue
		}
		stored := ssa.Unstructured(ssa.Object(req.GetObserved().GetResources()[name].GetResource()))
		called := u.GetName()
		if called == "" && stored != nil {
			called = stored.GetName()
		}
		out = append(out, object{name: name, content: u.Object, config: carry.Itself(u.GroupVersionKind().GroupKind(), s.namespace(u, stored), called)})
	}
	return out
}

// namespace returns the namespace of a desired object: that of the composite, as Crossplane sets it, else its own.
func (s Session) namespace(desired, stored *unstructured.Unstructured) string {
	switch {
	case s.xr.GetNamespace() != "":
		return s.xr.GetNamespace()
	case desired.GetNamespace() == "" && stored != nil:
		return stored.GetNamespace()
	}
	return desired.GetNamespace()
}

// shared returns the ProviderConfigs that desired resources of AWS refer to and the Composition does not compose, each once, sorted.
func (s Session) shared(req *fnv1.RunFunctionRequest) (out []carry.Config) {
	own := map[carry.Config]bool{}
	for _, o := range s.composed(req) {
		own[o.config] = true
	}
	for name, r := range req.GetDesired().GetResources() {
		u := ssa.Unstructured(ssa.Object(r.GetResource()))
		if u == nil {
			continue
		}
		stored := ssa.Unstructured(ssa.Object(req.GetObserved().GetResources()[name].GetResource()))
		c, ok := carry.ConfigOf(u.GroupVersionKind().GroupKind(), s.namespace(u, stored), u.Object)
		if ok && !own[c] {
			own[c] = true
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b carry.Config) int { return strings.Compare(a.String(), b.String()) })
	return out
}
