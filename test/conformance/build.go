package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	typeJSON  = "application/json"
	typeMerge = "application/merge-patch+json"
	typePatch = "application/json-patch+json"
	typeApply = "application/apply-patch+yaml"
)

// build the request of a step. ref names the object of the request; empty if it
// has no name yet, or for several objects.
func (p *play) build(ctx context.Context, s *Step, as *Actor) (r request, ref string, err error) {
	r.as, r.query = as, url.Values{}
	if as.FieldManager != "" && s.Delete == nil && s.DeleteCollection == nil {
		r.query.Set("fieldManager", as.FieldManager)
	}
	if s.DryRun {
		r.query.Set("dryRun", "All")
	}
	switch {
	case s.Create != nil:
		return p.buildObject(ctx, r, s.Create, s.OwnedBy, http.MethodPost)
	case s.Apply != nil:
		r.query.Set("force", strconv.FormatBool(!s.Unforced))
		r.contentType = typeApply
		return p.buildObject(ctx, r, s.Apply, s.OwnedBy, http.MethodPatch)
	case s.Update != nil:
		r.method, r.contentType = http.MethodPut, typeJSON
		if r.body, err = p.merged(ctx, s.Update); err != nil {
			return r, "", err
		}
		return p.place(r, s.Update.Of, "")
	case s.Patch != nil:
		r.method, r.contentType, r.body = http.MethodPatch, typeMerge, s.Patch.Merge
		if s.Patch.JSON != nil {
			r.contentType, r.body = typePatch, s.Patch.JSON
		}
		return p.place(r, s.Patch.Of, "")
	case s.Annotate != nil:
		set, err := annotations(s.Annotate.Set)
		if err != nil {
			return r, "", err
		}
		r.method, r.contentType = http.MethodPatch, typeMerge
		r.body = map[string]any{"metadata": map[string]any{"annotations": set}}
		return p.place(r, s.Annotate.Of, "")
	case s.Status != nil:
		body := map[string]any{"status": s.Status.content()}
		if s.Status.Metadata != nil {
			body["metadata"] = s.Status.Metadata
		}
		r.method, r.contentType, r.body = http.MethodPatch, typeMerge, body
		return p.place(r, s.Status.Of, "status")
	case s.Scale != nil:
		r.method, r.contentType = http.MethodPatch, typeMerge
		r.body = map[string]any{"spec": map[string]any{"replicas": s.Scale.Replicas}}
		return p.place(r, s.Scale.Of, "scale")
	}
	return p.buildDeletion(r, s)
}

func (p *play) buildDeletion(r request, s *Step) (request, string, error) {
	r.method, r.contentType = http.MethodDelete, typeJSON
	options := map[string]any{"apiVersion": "v1", "kind": "DeleteOptions"}
	if s.DryRun {
		options["dryRun"] = []string{"All"}
	}
	r.body = options
	if s.Delete != nil {
		if s.Delete.Propagation != "" {
			options["propagationPolicy"] = s.Delete.Propagation
		}
		return p.place(r, s.Delete.Of, "")
	}
	if s.DeleteCollection.Selector != "" {
		r.query.Set("labelSelector", s.DeleteCollection.Selector)
	}
	r, _, err := p.place(r, s.DeleteCollection.Kind, "")
	return r, "", err
}

func (p *play) place(r request, ref, subresource string) (request, string, error) {
	gvk, name, err := p.gvk(ref)
	if err != nil {
		return r, "", err
	}
	r.path, _, err = p.client.place(gvk, p.namespace, name, subresource)
	return r, ref, err
}

// buildObject completes the short form of an object in a scenario.
func (p *play) buildObject(ctx context.Context, r request, short map[string]any, ownedBy, method string) (request, string, error) {
	kind, _ := short["kind"].(string)
	gvk, _, err := p.gvk(kind)
	if err != nil {
		return r, "", err
	}
	o := maps.Clone(short)
	o["apiVersion"], o["kind"] = gvk.ToAPIVersionAndKind()
	metadata, err := metadataOf(o)
	if err != nil {
		return r, "", err
	}
	if ownedBy != "" {
		owner, err := p.owner(ctx, ownedBy)
		if err != nil {
			return r, "", err
		}
		metadata["ownerReferences"] = []any{owner}
	}
	name, _ := metadata["name"].(string)
	at := name
	if method == http.MethodPost {
		r.contentType, at = typeJSON, ""
	}
	path, namespaced, err := p.client.place(gvk, p.namespace, at, "")
	if err != nil {
		return r, "", err
	}
	if namespaced {
		metadata["namespace"] = p.namespace
	}
	r.method, r.path, r.body = method, path, o
	if name == "" {
		return r, "", nil
	}
	return r, kind + "/" + name, nil
}

// metadataOf an object: scenarios write its fields at the top level.
func metadataOf(o map[string]any) (map[string]any, error) {
	m := map[string]any{}
	if given, ok := o["metadata"].(map[string]any); ok {
		m = maps.Clone(given)
	}
	for _, k := range []string{"name", "generateName", "labels", "finalizers", "ownerReferences", "annotations"} {
		if v, ok := o[k]; ok {
			m[k] = v
			delete(o, k)
		}
	}
	if given, ok := m["annotations"].(map[string]any); ok {
		set, err := annotations(given)
		if err != nil {
			return nil, err
		}
		m["annotations"] = set
	}
	o["metadata"] = m
	return m, nil
}

// annotations as they are sent: complete keys, and string values.
func annotations(set map[string]any) (map[string]any, error) {
	out := make(map[string]any, len(set))
	for k, v := range set {
		switch v.(type) {
		case nil, string:
			out[key(k)] = v
		default:
			raw, err := json.Marshal(v)
			if err != nil {
				return nil, fmt.Errorf("cannot encode annotation %s: %w", k, err)
			}
			out[key(k)] = string(raw)
		}
	}
	return out, nil
}

func (p *play) owner(ctx context.Context, ref string) (map[string]any, error) {
	gvk, name, err := p.gvk(ref)
	if err != nil {
		return nil, err
	}
	uid, err := p.field(ctx, ref, "metadata.uid")
	if err != nil {
		return nil, err
	}
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "name": name, "uid": uid, "controller": true}, nil
}

// merged is the current object with a merge patch applied, for an update.
func (p *play) merged(ctx context.Context, c *Change) (map[string]any, error) {
	o, err := p.get(ctx, c.Of)
	if err != nil {
		return nil, err
	}
	if o == nil {
		return nil, fmt.Errorf("%s does not exist", c.Of)
	}
	return merge(o, c.Merge), nil
}

// merge by RFC 7396.
func merge(o, patch map[string]any) map[string]any {
	out := maps.Clone(o)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range patch {
		below, isMap := v.(map[string]any)
		switch {
		case v == nil:
			delete(out, k)
		case isMap:
			have, _ := out[k].(map[string]any)
			out[k] = merge(have, below)
		default:
			out[k] = v
		}
	}
	return out
}

// content of a status.
func (s *Status) content() map[string]any {
	out := map[string]any{}
	maps.Copy(out, s.Merge)
	if s.Observed != nil {
		out["observedGeneration"] = number(s.Observed)
	}
	if s.Conditions == nil {
		return out
	}
	list := []any{}
	for _, t := range slices.Sorted(maps.Keys(s.Conditions)) {
		c := map[string]any{"type": t, "reason": "Conformance", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}
		if more, ok := s.Conditions[t].(map[string]any); ok {
			maps.Copy(c, more)
		} else {
			c["status"] = strings.TrimSpace(text(s.Conditions[t]))
		}
		if g, ok := c["observedGeneration"]; ok {
			c["observedGeneration"] = number(g)
		}
		list = append(list, c)
	}
	out["conditions"] = list
	return out
}
