package input

import (
	"errors"
	"fmt"

	kjson "sigs.k8s.io/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// Parse the input of a RunFunctionRequest and validate it. Every error names
// the field that is at fault.
func Parse(s *structpb.Struct) (*Resources, error) {
	if s == nil {
		return nil, errors.New("the pipeline step has no input")
	}
	b, err := protojson.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("cannot encode input: %w", err)
	}
	in := &Resources{}
	strict, err := kjson.UnmarshalStrict(b, in)
	if err != nil {
		return nil, fmt.Errorf("cannot decode input: %w", err)
	}
	if len(strict) > 0 {
		return nil, fmt.Errorf("cannot use input: %w", errors.Join(strict...))
	}
	if err := Validate(in); err != nil {
		return nil, fmt.Errorf("invalid input: %w", err)
	}
	return in, nil
}
