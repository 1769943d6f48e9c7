package subject

import (
	"slices"
	"strings"
)

// DefaultControllerNamespace is where Crossplane and its providers run by default.
const DefaultControllerNamespace = "crossplane-system"

// Eligible are the users who may be controllers. The zero value has no controllers of Crossplane's kinds.
type Eligible struct {
	// Namespaces of the ServiceAccounts that may be controllers of Crossplane's kinds, which are composites, Claims and managed
	// resources (KR-13-62).
	Namespaces []string
	// Named reports whether any other user may be a controller, by name; nil for none.
	Named func(name string) bool
}

// Has reports whether a user may be a controller of objects: of Crossplane's kinds, or of any other. The right to write
// statuses makes no user a controller of Crossplane's kinds: Crossplane's RBAC manager gives it to their editors.
func (e Eligible) Has(u User, crossplane bool) bool {
	switch {
	case e.Named != nil && e.Named(u.Name):
		return true
	case !crossplane:
		return u.IsMachine()
	}
	namespace := u.Namespace()
	return namespace != "" && slices.Contains(e.Namespaces, namespace)
}

// Namespace returns the namespace of the ServiceAccount that the user is; "" for any other user.
func (u User) Namespace() string {
	rest, ok := strings.CutPrefix(u.Name, "system:serviceaccount:")
	if !ok {
		return ""
	}
	namespace, name, ok := strings.Cut(rest, ":")
	if !ok || name == "" {
		return ""
	}
	return namespace
}
