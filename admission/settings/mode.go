package settings

import "github.com/kausality-io/function-kausality/api/v1alpha1"

// ModeOf an object by precedence (KR-05-21): its own annotation, its Namespace's,
// the policy that covers it, the default. namespace is called only where the object
// declares none; a value that is neither log nor enforce is ignored.
func ModeOf(own string, namespace func() (v1alpha1.Mode, error), policy, byDefault v1alpha1.Mode) (v1alpha1.Mode, error) {
	if m := v1alpha1.Mode(own); ValidMode(m) {
		return m, nil
	}
	m, err := namespace()
	if err != nil {
		return "", err
	}
	for _, m := range []v1alpha1.Mode{m, policy, byDefault} {
		if ValidMode(m) {
			return m, nil
		}
	}
	return v1alpha1.ModeLog, nil
}

// ValidMode reports whether a mode is log or enforce.
func ValidMode(m v1alpha1.Mode) bool { return m == v1alpha1.ModeLog || m == v1alpha1.ModeEnforce }
