package pt

import (
	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane/crossplane-runtime/v2/pkg/errors"
	"github.com/crossplane/crossplane-runtime/v2/pkg/fieldpath"
	"github.com/crossplane/function-sdk-go/resource/composed"

	"github.com/kausality-io/function-kausality/test/templating/input"
)

// isReady is true if all checks hold, without any if the condition Ready is
// True.
func isReady(o *composed.Unstructured, checks []input.ReadinessCheck) (bool, error) {
	if len(checks) == 0 {
		return o.GetCondition(xpv2.TypeReady).Status == corev1.ConditionTrue, nil
	}
	for i, c := range checks {
		ready, err := holds(c, o)
		if err != nil {
			return false, errors.Wrapf(err, "cannot run readiness check at index %d", i)
		}
		if !ready {
			return false, nil
		}
	}
	return true, nil
}

// holds runs one check, which has been validated. A field that does not exist
// is not ready; one of another type is an error.
func holds(c input.ReadinessCheck, o *composed.Unstructured) (bool, error) {
	p := fieldpath.Pave(o.Object)
	ready, err := false, error(nil)
	switch c.Type {
	case input.CheckNone:
		return true, nil
	case input.CheckMatchCondition:
		got := o.GetCondition(xpv2.ConditionType(c.MatchCondition.Type))
		return string(got.Status) == c.MatchCondition.Status, nil
	case input.CheckNonEmpty:
		_, err = p.GetValue(*c.FieldPath)
		ready = err == nil
	case input.CheckMatchString:
		ready, err = equals(p.GetString, *c.FieldPath, *c.MatchString)
	case input.CheckMatchInteger:
		ready, err = equals(p.GetInteger, *c.FieldPath, *c.MatchInteger)
	case input.CheckMatchTrue:
		ready, err = equals(p.GetBool, *c.FieldPath, true)
	case input.CheckMatchFalse:
		ready, err = equals(p.GetBool, *c.FieldPath, false)
	}
	if fieldpath.IsNotFound(err) {
		return false, nil
	}
	return ready, err
}

func equals[T comparable](get func(string) (T, error), path string, want T) (bool, error) {
	got, err := get(path)
	return err == nil && got == want, err
}
