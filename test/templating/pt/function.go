package pt

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"
	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/response"

	"github.com/kausality-io/function-kausality/test/templating/input"
)

// A Function renders templates. It is safe for concurrent use.
type Function struct {
	fnv1.UnimplementedFunctionRunnerServiceServer

	log logging.Logger
}

// NewFunction returns a Function that logs to the supplied logger.
func NewFunction(log logging.Logger) *Function {
	return &Function{log: log}
}

// RunFunction renders the templates of the request's input. It never returns
// an error: what goes wrong is a fatal result.
func (f *Function) RunFunction(_ context.Context, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	log := f.log.WithValues("tag", req.GetMeta().GetTag())
	// The SDK's response shares the request's desired state, so work on a copy.
	req, _ = proto.Clone(req).(*fnv1.RunFunctionRequest)
	rsp := response.To(req, response.DefaultTTL)

	if err := run(req, rsp); err != nil {
		log.Info("Cannot render templates", "error", err)
		response.Fatal(rsp, err)
		return rsp, nil
	}
	log.Debug("Rendered templates", "desired", len(rsp.GetDesired().GetResources()), "warnings", len(rsp.GetResults()))
	return rsp, nil
}

func run(req *fnv1.RunFunctionRequest, rsp *fnv1.RunFunctionResponse) error {
	in, err := input.Parse(req.GetInput())
	if err != nil {
		return err
	}
	s, err := newState(req)
	if err != nil {
		return err
	}
	for _, t := range in.Resources {
		warnings, err := s.render(t)
		if err != nil {
			return errors.Wrapf(err, "cannot render composed resource %q", t.Name)
		}
		for _, w := range warnings {
			response.Warning(rsp, errors.Wrapf(w, "composed resource %q", t.Name))
		}
	}
	return s.store(rsp)
}
