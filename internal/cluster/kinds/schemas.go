package kinds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/lru"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/parent"
)

const (
	// maxSchemas is of how many kinds the schemas are kept.
	maxSchemas = 256
	// schemaTimeout bounds the read of one schema: a user waits for it.
	schemaTimeout = 2 * time.Second
	// servedFor is how long a discovery is used, and a schema of a kind that no CRD defines.
	servedFor = time.Minute
)

// Schemas of the kinds that policies name, read when they are first requested: it is an
// allowance.Kinds. A schema that cannot be read counts as missing. It is safe for concurrent use.
type Schemas struct {
	kinds     *Kinds
	client    dynamic.Interface
	discovery discovery.DiscoveryInterface
	now       func() time.Time

	// byKind are the schemas of kinds of CRDs by version, and documents those of built-in ones by group and version.
	byKind, documents *lru.Cache

	mu sync.Mutex
	// served kinds that no CRD defines, as discovery had them at a time; complete where all groups answered.
	served   map[schema.GroupVersionKind]bool
	complete bool
	at       time.Time
}

// NewSchemas reads nothing. Call it before the Kinds run.
func NewSchemas(k *Kinds, client dynamic.Interface, served discovery.DiscoveryInterface) *Schemas {
	s := &Schemas{kinds: k, client: client, discovery: served, now: time.Now,
		byKind: lru.New(maxSchemas), documents: lru.New(maxSchemas)}
	k.OnDefined(func(gk schema.GroupKind) { s.byKind.Remove(gk) })
	return s
}

// Find the kinds of a name, in one group or in any.
func (s *Schemas) Find(kind, group string, anyGroup bool) (found []allowance.Kind, known bool) {
	if !s.kinds.HasSynced() {
		return nil, false
	}
	byGroup := map[string][]Info{}
	for _, i := range s.kinds.named(kind) {
		if anyGroup || i.GVK.Group == group {
			byGroup[i.GVK.Group] = append(byGroup[i.GVK.Group], i)
		}
	}
	for _, infos := range byGroup {
		found = append(found, s.ofCRD(infos))
	}
	if len(found) > 0 && !anyGroup {
		return found, true
	}
	builtin, complete := s.builtin(kind, group, anyGroup, byGroup)
	found = append(found, builtin...)
	return found, complete || len(found) > 0 && !anyGroup
}

// Names of the kinds of CRDs, and of those that no CRD defines, in one group or in any.
func (s *Schemas) Names(group string, anyGroup bool) []string {
	out := s.kinds.names(group, anyGroup)
	served, _ := s.discover()
	for gvk := range served {
		if anyGroup || gvk.Group == group {
			out = append(out, gvk.Kind)
		}
	}
	return out
}

// ofCRD returns a kind by the served versions of its CRD.
func (s *Schemas) ofCRD(infos []Info) allowance.Kind {
	i := infos[0]
	k := allowance.Kind{GroupKind: i.GVK.GroupKind(), ClusterScoped: !i.Namespaced, Schemas: map[string]*change.Schema{}}
	k.External = i.Role == parent.RoleManaged || i.Role == parent.RoleComposite || i.Role == parent.RoleClaim
	schemas, err := s.read(k.GroupKind, i.Resource)
	for _, i := range infos {
		if err != nil {
			schemas = nil // any field is possible
		}
		k.Schemas[i.GVK.Version] = schemas[i.GVK.Version]
	}
	return k
}

// read the schemas of a CRD, by version.
func (s *Schemas) read(gk schema.GroupKind, name string) (map[string]*change.Schema, error) {
	if have, ok := s.byKind.Get(gk); ok {
		return have.(map[string]*change.Schema), nil //nolint:forcetypeassert // It holds nothing else.
	}
	ctx, cancel := context.WithTimeout(context.Background(), schemaTimeout)
	defer cancel()
	crd, err := s.client.Resource(CRDs).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot read CRD %s: %w", name, err)
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return nil, fmt.Errorf("cannot read the versions of CRD %s: %w", name, err)
	}
	preserves, _, err := unstructured.NestedBool(crd.Object, "spec", "preserveUnknownFields")
	if err != nil {
		return nil, fmt.Errorf("cannot read CRD %s: %w", name, err)
	}
	out := map[string]*change.Schema{}
	for _, e := range versions {
		v, _ := e.(map[string]any)
		version, _ := v["name"].(string)
		if root := property(v); root != nil && !preserves {
			out[version] = change.SchemaOf(trimmed(root))
		}
	}
	s.byKind.Add(gk, out)
	return out, nil
}

// builtin kinds, which no CRD defines; complete is false where some groups did not answer.
func (s *Schemas) builtin(kind, group string, anyGroup bool, except map[string][]Info) (found []allowance.Kind, complete bool) {
	served, complete := s.discover()
	byGroup := map[string]int{}
	for gvk, namespaced := range served {
		if gvk.Kind != kind || !anyGroup && gvk.Group != group || except[gvk.Group] != nil {
			continue
		}
		at, ok := byGroup[gvk.Group]
		if !ok {
			at = len(found)
			byGroup[gvk.Group] = at
			found = append(found, allowance.Kind{GroupKind: gvk.GroupKind(), ClusterScoped: !namespaced, Schemas: map[string]*change.Schema{}})
		}
		found[at].Schemas[gvk.Version] = s.document(gvk)
	}
	return found, complete
}

// discover which kinds are served, with whether they are namespaced.
func (s *Schemas) discover() (served map[schema.GroupVersionKind]bool, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.served != nil && s.now().Sub(s.at) < servedFor {
		return s.served, s.complete
	}
	_, lists, err := s.discovery.ServerGroupsAndResources()
	failed := &discovery.ErrGroupDiscoveryFailed{}
	if err != nil && !errors.As(err, &failed) {
		return nil, false
	}
	s.served, s.complete, s.at = map[schema.GroupVersionKind]bool{}, err == nil, s.now()
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			continue // of an aggregated API server that breaks the API conventions
		}
		for _, r := range l.APIResources {
			if !strings.Contains(r.Name, "/") {
				s.served[gv.WithKind(r.Kind)] = r.Namespaced
			}
		}
	}
	return s.served, s.complete
}

// document is what is kept of the OpenAPI document of a group and version.
type document struct {
	components map[string]any
	// names of the components of kinds.
	names map[string]string
	at    time.Time
}

// document's schema of a kind; nil where it cannot be read.
func (s *Schemas) document(gvk schema.GroupVersionKind) *change.Schema {
	have, ok := s.documents.Get(gvk.GroupVersion())
	d, _ := have.(*document)
	if !ok || s.now().Sub(d.at) > 10*servedFor {
		var err error
		if d, err = s.readDocument(gvk.GroupVersion()); err != nil {
			return nil
		}
		s.documents.Add(gvk.GroupVersion(), d)
	}
	return change.SchemaOfComponent(d.components, d.names[gvk.Kind])
}

func (s *Schemas) readDocument(gv schema.GroupVersion) (*document, error) {
	paths, err := s.discovery.OpenAPIV3().Paths()
	if err != nil {
		return nil, fmt.Errorf("cannot list the OpenAPI documents: %w", err)
	}
	path := "apis/" + gv.String()
	if gv.Group == "" {
		path = "api/" + gv.Version
	}
	of, ok := paths[path]
	if !ok {
		return nil, fmt.Errorf("there is no OpenAPI document of %s", gv)
	}
	raw, err := of.Schema("application/json")
	if err != nil {
		return nil, fmt.Errorf("cannot read the OpenAPI document of %s: %w", gv, err)
	}
	var in struct {
		Components struct {
			Schemas map[string]map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, fmt.Errorf("cannot decode the OpenAPI document of %s: %w", gv, err)
	}
	out := &document{components: map[string]any{}, names: map[string]string{}, at: s.now()}
	for name, c := range in.Components.Schemas {
		kinds, _ := c["x-kubernetes-group-version-kind"].([]any)
		for _, k := range kinds {
			if m, ok := k.(map[string]any); ok && m["group"] == gv.Group && m["version"] == gv.Version {
				kind, _ := m["kind"].(string)
				out.names[kind] = name
			}
		}
		out.components[name] = trimmed(c)
	}
	return out, nil
}

// kept of a schema: what shows which fields there are.
var kept = []string{"type", "$ref", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"}

// trimmed schema, without descriptions and validations.
func trimmed(node map[string]any) map[string]any {
	out := map[string]any{}
	for _, key := range kept {
		if v, ok := node[key]; ok {
			out[key] = v
		}
	}
	if properties, ok := node["properties"].(map[string]any); ok {
		of := make(map[string]any, len(properties))
		for name, p := range properties {
			if inner, ok := p.(map[string]any); ok {
				of[name] = trimmed(inner)
			}
		}
		out["properties"] = of
	}
	for _, key := range []string{"items", "additionalProperties"} {
		switch v := node[key].(type) {
		case map[string]any:
			out[key] = trimmed(v)
		case bool:
			out[key] = v
		}
	}
	if all, ok := node["allOf"].([]any); ok && len(all) == 1 {
		if only, ok := all[0].(map[string]any); ok {
			out["allOf"] = []any{trimmed(only)}
		}
	}
	return out
}
