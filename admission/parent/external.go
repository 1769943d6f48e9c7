package parent

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// External identifies what a managed resource represents outside the cluster. An
// approval of one external resource is not one of another (KR-13-17). It is empty where it
// has no name yet, and the default provider config. It is one string since caches hold
// one for each object: provider config, a space, and name.
type External string

// NewExternal returns the External for an external name, which is digested where it is long, and a
// provider config as kind/name, empty for the default one.
func NewExternal(name, config string) External {
	if len(name) > maxExternalName {
		sum := sha256.Sum256([]byte(name))
		name = "sha256:" + hex.EncodeToString(sum[:])
	}
	if name == "" && config == "" {
		return ""
	}
	return External(config + " " + name)
}

// Name returns the name of the external resource, or a digest of it; empty where it has no name.
func (e External) Name() string {
	_, name, _ := strings.Cut(string(e), " ")
	return name
}

// Config returns the provider config as kind/name; empty for the default one.
func (e External) Config() string {
	config, _, _ := strings.Cut(string(e), " ")
	return config
}

const (
	// maxExternalName is the length of a name, in bytes, that is not digested.
	maxExternalName = 256
	// Defaults of spec.providerConfigRef in the CRDs of providers. An object that the
	// API server has not seen lacks them.
	defaultConfigKind, defaultConfigName = "ClusterProviderConfig", "default"
)

// ExternalOf returns the external resource of an object, by its annotation and its spec.
func ExternalOf(o *unstructured.Unstructured) External {
	spec := child(o.Object, "spec")
	ref := child(spec, "providerConfigRef")
	if ref == nil {
		ref = child(spec, "providerRef") // its name before v1.10
	}
	kind, name := text(ref, "kind"), text(ref, "name")
	if kind == defaultConfigKind {
		kind = ""
	}
	config := ""
	if kind != "" || name != "" && name != defaultConfigName {
		config = kind + "/" + name
	}
	return NewExternal(annotation(o, v1alpha1.AnnotationKeyExternalName), config)
}

// Represents returns the external resource of a managed resource.
func (s *State) Represents() External { return ptr.Deref(s.External, "") }

// Names reports whether another external resource is this one, named: one without a name
// gets one when it is created, and may have that of its object until then
// (crossplane-runtime, managed.NameAsExternalName).
func (e External) Names(other External, object string) bool {
	name := e.Name()
	return e.Config() == other.Config() && other.Name() != "" && (name == "" || name == object)
}
