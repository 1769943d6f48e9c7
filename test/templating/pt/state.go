package pt

import (
	"maps"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/request"
	"github.com/crossplane/function-sdk-go/resource"
	"github.com/crossplane/function-sdk-go/resource/composed"
	"github.com/crossplane/function-sdk-go/response"
)

// A state is what templates read (observed) and write (desired).
type state struct {
	oxr      *resource.Composite
	dxr      *resource.Composite
	observed map[resource.Name]resource.ObservedComposed
	desired  map[resource.Name]*resource.DesiredComposed
}

func newState(req *fnv1.RunFunctionRequest) (*state, error) {
	oxr, err := request.GetObservedCompositeResource(req)
	if err != nil {
		return nil, errors.Wrap(err, "cannot get observed composite")
	}
	dxr, err := request.GetDesiredCompositeResource(req)
	if err != nil {
		return nil, errors.Wrap(err, "cannot get desired composite")
	}
	observed, err := request.GetObservedComposedResources(req)
	if err != nil {
		return nil, errors.Wrap(err, "cannot get observed composed resources")
	}
	desired, err := request.GetDesiredComposedResources(req)
	if err != nil {
		return nil, errors.Wrap(err, "cannot get desired composed resources")
	}
	integers(oxr.Resource.Object)
	for _, o := range observed {
		integers(o.Resource.Object)
	}
	// As the original: the desired composite is sent with its kind.
	dxr.Resource.SetAPIVersion(oxr.Resource.GetAPIVersion())
	dxr.Resource.SetKind(oxr.Resource.GetKind())
	return &state{oxr: oxr, dxr: dxr, observed: observed, desired: desired}, nil
}

// store the desired state in the response.
func (s *state) store(rsp *fnv1.RunFunctionResponse) error {
	ready := rsp.GetDesired().GetComposite().GetReady()
	if err := response.SetDesiredCompositeResource(rsp, s.dxr); err != nil {
		return errors.Wrap(err, "cannot set desired composite")
	}
	// The SDK forgets what an earlier step said about the composite's readiness.
	rsp.Desired.Composite.Ready = ready
	return errors.Wrap(response.SetDesiredComposedResources(rsp, s.desired), "cannot set desired composed resources")
}

// integers makes whole numbers int64, as the API server's JSON decoder does.
// Protobuf only knows floats, and "%d" would print them as "%!d(float64=3)".
func integers(o map[string]any) {
	maps.Copy(o, whole(o).(map[string]any)) //nolint:forcetypeassert // whole keeps the type.
}

func whole(v any) any {
	switch t := v.(type) {
	case map[string]any:
		for k := range t {
			t[k] = whole(t[k])
		}
	case []any:
		for i := range t {
			t[i] = whole(t[i])
		}
	case float64:
		if i := int64(t); float64(i) == t {
			return i
		}
	}
	return v
}

// base is the desired composed resource that patches start from: the
// template's own, or what an earlier step composed under the same name.
func (s *state) base(name resource.Name, base map[string]any) (*resource.DesiredComposed, error) {
	dcd := &resource.DesiredComposed{Resource: composed.New()}
	if base != nil {
		dcd.Resource.Object = base
		return dcd, nil
	}
	earlier, ok := s.desired[name]
	if !ok {
		return nil, errors.New("it has no base, and no earlier step of the pipeline composed it")
	}
	dcd.Resource = earlier.Resource.DeepCopy()
	return dcd, nil
}
