package carry

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TagSession is the key of the session tag with which a provider assumes its roles (KR-08-70). AWS compares keys without case.
const TagSession = "kausality-origin"

// Fields of a ProviderConfig of AWS, as in apis/namespaced/v1beta1/types.go of provider-upjet-aws v2.
const (
	fieldChain      = "assumeRoleChain"
	fieldTransitive = "transitiveTagKeys"
)

// Config refers to a ProviderConfig of AWS.
type Config struct {
	schema.GroupKind
	// Namespace is "" for a cluster-scoped one.
	Namespace, Name string
}

// Kinds of ProviderConfigs.
const (
	kindConfig        = "ProviderConfig"
	kindClusterConfig = "ClusterProviderConfig"
)

// Groups of ProviderConfigs with a chain of roles.
const (
	groupConfigs        = "aws.m.upbound.io"
	groupClusterConfigs = "aws.upbound.io"
)

// defaultConfig is the name of the ProviderConfig of a resource that names none.
const defaultConfig = "default"

// String returns a Config as origins are written: ProviderConfig.aws.m.upbound.io/shop/orders.
func (c Config) String() string { return originOf(c.GroupKind, c.Namespace, c.Name) }

// HasChain reports whether objects of a kind are ProviderConfigs of AWS with a chain of roles.
func HasChain(gk schema.GroupKind) bool {
	return gk.Kind == kindConfig && (gk.Group == groupConfigs || gk.Group == groupClusterConfigs) ||
		gk.Kind == kindClusterConfig && gk.Group == groupConfigs
}

// Itself returns the Config of a ProviderConfig. A namespaced one without a namespace gets that of the composite.
func Itself(gk schema.GroupKind, namespace, name string) Config {
	if gk.Group != groupConfigs || gk.Kind == kindClusterConfig {
		namespace = ""
	}
	return Config{GroupKind: gk, Namespace: namespace, Name: name}
}

// ConfigOf returns the ProviderConfig that a managed resource of AWS refers to, by its content; ok is false for any other object. namespace is that of
// the resource. A resource without a reference has the one that the provider's CustomResourceDefinitions have as a default.
func ConfigOf(gk schema.GroupKind, namespace string, content map[string]any) (c Config, ok bool) {
	i := strings.Index("."+gk.Group, ".aws.")
	if i < 1 || ForProvider(content) == nil {
		return Config{}, false
	}
	spec, _ := content["spec"].(map[string]any)
	ref, _ := spec["providerConfigRef"].(map[string]any)
	of := schema.GroupKind{Group: gk.Group[i:], Kind: kindConfig}
	if of.Group == groupConfigs {
		kind, _ := ref["kind"].(string)
		of.Kind = cmp.Or(kind, kindClusterConfig)
	}
	name, _ := ref["name"].(string)
	return Itself(of, namespace, cmp.Or(name, defaultConfig)), true
}

// SessionOf returns the value of the session tag for an object: its kind, namespace and name, in a form that AWS accepts. It has no generation, since a
// tag that changes would change the ProviderConfig with each intent.
func SessionOf(gk schema.GroupKind, namespace, name string) string {
	return TagValue(originOf(gk, namespace, name))
}

// SessionOfClaim returns the value for the Claim of a composite; "" where it has none.
func SessionOfClaim(xr *unstructured.Unstructured) string {
	claim, ok := parent.ClaimOf(xr)
	if !ok {
		return ""
	}
	return SessionOf(claim.GroupKind(), claim.Namespace, claim.Name)
}

func originOf(gk schema.GroupKind, namespace, name string) string {
	hop := v1alpha1.Hop{APIVersion: gk.WithVersion("v1").GroupVersion().String(), Kind: gk.Kind, Name: name}
	return external.ProvenanceOf([]v1alpha1.Hop{hop}, namespace).Origin
}

// ErrNoRole is the error about a ProviderConfig without a role: no session that could have a tag is made.
var ErrNoRole = errors.New("it assumes no role: spec.assumeRoleChain is empty")

// WithSession returns the content of a ProviderConfig whose first role is assumed with the session tag, as a transitive one: all sessions of the chain
// have it then (KR-08-70). Later roles must not have it, since AWS refuses a tag that is inherited. Tags and keys of others stay as they are and where
// they are. replaced are other values that were set. The content is not modified, and returned as it is where it has the tag, and with an error.
func WithSession(content map[string]any, value string) (out map[string]any, replaced []string, err error) {
	spec, _ := content["spec"].(map[string]any)
	chain, ok := spec[fieldChain].([]any)
	switch {
	case !ok && spec[fieldChain] != nil:
		return content, nil, errors.New("spec.assumeRoleChain is no list")
	case len(chain) == 0:
		return content, nil, ErrNoRole
	}
	roles := slices.Clone(chain)
	for i, r := range chain {
		role, others, err := withSession(r, value, i == 0)
		if err != nil {
			return content, nil, fmt.Errorf("spec.assumeRoleChain[%d]%w", i, err)
		}
		roles[i], replaced = role, append(replaced, others...)
	}
	if reflect.DeepEqual(roles, chain) {
		return content, nil, nil
	}
	out, spec = maps.Clone(content), maps.Clone(spec)
	out["spec"], spec[fieldChain] = spec, roles
	return out, replaced, nil
}

// withSession returns a role of a chain with the tag where it is the first, and without it where it is not.
func withSession(role any, value string, first bool) (out map[string]any, replaced []string, err error) {
	of, ok := role.(map[string]any)
	if !ok {
		return nil, nil, errors.New(" is no object")
	}
	tags, err := listOf(of, fieldTags)
	if err != nil {
		return nil, nil, err
	}
	keys, err := listOf(of, fieldTransitive)
	if err != nil {
		return nil, nil, err
	}
	f := Field{key: "key", value: "value"}
	for _, t := range tags {
		if !isSession(f.nameOf(t)) {
			continue
		}
		if v, _ := t.(map[string]any)[f.value].(string); v != value {
			replaced = append(replaced, v)
		}
	}
	isTag := func(t any) bool { return isSession(f.nameOf(t)) }
	isKey := func(k any) bool { text, _ := k.(string); return isSession(text) }
	var tag, key any
	if first {
		tag, key = map[string]any{f.key: TagSession, f.value: value}, TagSession
	}
	out = maps.Clone(of)
	set(out, fieldTags, only(tags, tag, isTag))
	set(out, fieldTransitive, only(keys, key, isKey))
	if n := len(only(tags, tag, isTag)); n > MaxTags {
		return nil, nil, fmt.Errorf(".tags has no room for %s: AWS allows %d", TagSession, MaxTags)
	}
	return out, replaced, nil
}

func isSession(key string) bool { return strings.EqualFold(key, TagSession) }

// only returns a list in which one item alone is of a kind: in its place where the list has it, else at the end; none for nil. The list is not modified.
func only(list []any, item any, is func(any) bool) []any {
	if i := slices.IndexFunc(list, is); item != nil && i >= 0 && reflect.DeepEqual(list[i], item) && !slices.ContainsFunc(list[i+1:], is) {
		return list
	}
	out := slices.DeleteFunc(slices.Clone(list), is)
	if item != nil {
		out = append(out, item)
	}
	return out
}

// set sets a list; one that becomes empty is removed, and an empty one stays as it is.
func set(of map[string]any, field string, list []any) {
	before, _ := of[field].([]any)
	switch {
	case len(list) > 0:
		of[field] = list
	case len(before) > 0:
		delete(of, field)
	}
}

// listOf returns a list of a role; nil where it is not set.
func listOf(role map[string]any, field string) ([]any, error) {
	list, ok := role[field].([]any)
	if !ok && role[field] != nil {
		return nil, errors.New("." + field + " is no list")
	}
	return list, nil
}

// SessionFault returns what is wrong with a ProviderConfig whose sessions are to have a tag, as a clause (KR-08-71); "" where they have it.
func SessionFault(content map[string]any, value string) string {
	out, replaced, err := WithSession(content, value)
	switch {
	case err != nil:
		return err.Error()
	case len(replaced) > 0:
		return TagSession + " is " + strconv.Quote(TagValue(replaced[0]))
	case !reflect.DeepEqual(out, content):
		return "its first role has no transitive " + TagSession
	}
	return ""
}
