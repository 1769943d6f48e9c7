package session

import (
	"fmt"
	"strings"
	"testing"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	input "github.com/kausality-io/function-kausality/fn/input/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

const origin = "XDatabase.example.org/shop/orders"

// xr is a composite; namespace "" is a cluster-scoped one, of the Claim shop/orders where claimed.
func xr(namespace string, claimed bool) *unstructured.Unstructured {
	metadata, spec := map[string]any{"name": "orders"}, map[string]any{}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	if claimed {
		spec["claimRef"] = map[string]any{"apiVersion": "example.org/v1", "kind": "Database", "namespace": "shop", "name": "orders"}
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "XDatabase", "metadata": metadata, "spec": spec}}
}

// config is a ProviderConfig with as many roles, of which the first has a tag; "" for none.
func config(kind, name string, roles int, tag string) map[string]any {
	chain := []any{}
	for i := range roles {
		role := map[string]any{"roleARN": fmt.Sprintf("arn:aws:iam::111122223333:role/crossplane/r%d", i)}
		if i == 0 && tag != "" {
			role["tags"] = []any{map[string]any{"key": "kausality-origin", "value": tag}}
			role["transitiveTagKeys"] = []any{"kausality-origin"}
		}
		chain = append(chain, role)
	}
	metadata := map[string]any{}
	if name != "" {
		metadata["name"] = name
	}
	return map[string]any{"apiVersion": "aws.m.upbound.io/v1beta1", "kind": kind, "metadata": metadata, "spec": map[string]any{"assumeRoleChain": chain}}
}

// bucket refers to a ProviderConfig; "" for none.
func bucket(kind, name string) map[string]any {
	spec := map[string]any{"forProvider": map[string]any{"region": "eu"}}
	if name != "" {
		spec["providerConfigRef"] = map[string]any{"kind": kind, "name": name}
	}
	return map[string]any{"apiVersion": "s3.aws.m.upbound.io/v1beta1", "kind": "Bucket", "spec": spec}
}

type objects = map[string]map[string]any

func requestOf(desired, observed objects) *fnv1.RunFunctionRequest {
	state := func(of objects) *fnv1.State {
		out := &fnv1.State{Resources: map[string]*fnv1.Resource{}}
		for name, o := range of {
			out.Resources[name] = &fnv1.Resource{Resource: ssa.ToStruct(o), Ready: fnv1.Ready_READY_TRUE}
		}
		return out
	}
	return &fnv1.RunFunctionRequest{Meta: &fnv1.RequestMeta{Tag: "tag"}, Desired: state(desired), Observed: state(observed),
		RequiredResources: map[string]*fnv1.Resources{}, RequiredSchemas: map[string]*fnv1.Schema{"x": {}}}
}

// write runs Write, checking what must hold of every run.
func write(t *testing.T, s Session, req *fnv1.RunFunctionRequest) (out objects, notes, warnings []string) {
	t.Helper()
	before, rsp := proto.Clone(req), &fnv1.RunFunctionResponse{}
	got, notes := s.Write(req, rsp)
	assert.Empty(t, cmp.Diff(before, req, protocmp.Transform()), "the request was modified")
	twice, again := s.Write(got, &fnv1.RunFunctionResponse{})
	assert.Empty(t, cmp.Diff(got, twice, protocmp.Transform()), "twice is not once")
	assert.Equal(t, notes, again, "twice is not once")
	out = objects{}
	for name, r := range got.GetDesired().GetResources() {
		assert.Equal(t, fnv1.Ready_READY_TRUE, r.GetReady())
		out[name] = ssa.Object(r.GetResource())
	}
	rest := proto.Clone(got).(*fnv1.RunFunctionRequest)
	rest.Desired = req.GetDesired()
	assert.Empty(t, cmp.Diff(before, rest, protocmp.Transform()), "something else of the request is lost")
	for _, r := range rsp.GetResults() {
		warnings = append(warnings, r.GetMessage())
	}
	return out, notes, warnings
}

// TestWrite covers KR-08-70.
func TestWrite(t *testing.T) {
	const claim = "Database.example.org/shop/orders"
	for name, tc := range map[string]struct {
		reason   string
		per      input.AWSSessionPer
		xr       *unstructured.Unstructured
		config   map[string]any
		want     map[string]any
		notes    string
		warnings string
	}{
		"Off": {reason: "nothing is configured", xr: xr("shop", false), config: config("ProviderConfig", "aws", 1, "root"),
			want: config("ProviderConfig", "aws", 1, "root")},
		"XR": {reason: "the composite", per: input.AWSSessionPerXR, xr: xr("shop", false), config: config("ProviderConfig", "aws", 2, ""),
			want: config("ProviderConfig", "aws", 2, origin)},
		"ClusterXR": {reason: "without a namespace", per: input.AWSSessionPerXR, xr: xr("", true), config: config("ClusterProviderConfig", "aws", 1, ""),
			want: config("ClusterProviderConfig", "aws", 1, "XDatabase.example.org/orders")},
		"Namespace": {reason: "that of the composite", per: input.AWSSessionPerNamespace, xr: xr("shop", false), config: config("ProviderConfig", "", 1, ""),
			want: config("ProviderConfig", "", 1, "shop")},
		"NoNamespace": {reason: "a cluster-scoped composite has none", per: input.AWSSessionPerNamespace, xr: xr("", true),
			config: config("ProviderConfig", "aws", 1, "root"), want: config("ProviderConfig", "aws", 1, "root"), notes: "the composite has no Namespace"},
		"Claim": {reason: "the Claim", per: input.AWSSessionPerClaim, xr: xr("", true), config: config("ClusterProviderConfig", "aws", 1, ""),
			want: config("ClusterProviderConfig", "aws", 1, claim)},
		"NoClaim": {reason: "a composite without one", per: input.AWSSessionPerClaim, xr: xr("shop", false),
			config: config("ProviderConfig", "aws", 1, ""), want: config("ProviderConfig", "aws", 1, ""), notes: "the composite has no Claim"},
		"Forged": {reason: "a value of the Composition is replaced", per: input.AWSSessionPerXR, xr: xr("shop", false),
			config: config("ProviderConfig", "aws", 1, "root"), want: config("ProviderConfig", "aws", 1, origin),
			warnings: `values of the Composition are replaced: "root" of ProviderConfig.aws.m.upbound.io/shop/aws`},
		"NoRole": {reason: "no session has a tag", per: input.AWSSessionPerXR, xr: xr("shop", false), config: config("ProviderConfig", "aws", 0, ""),
			want: config("ProviderConfig", "aws", 0, ""), notes: "ProviderConfig.aws.m.upbound.io/shop/aws assumes no role"},
		"Kind": {reason: "a kind that is no ProviderConfig", per: input.AWSSessionPerXR, xr: xr("shop", false), config: config("Other", "aws", 1, "root"),
			want: config("Other", "aws", 1, "root")},
	} {
		t.Run(name, func(t *testing.T) {
			got, notes, warnings := write(t, Of(tc.per, tc.xr), requestOf(objects{"config": tc.config}, nil))
			assert.Equal(t, objects{"config": tc.want}, got, tc.reason)
			contains(t, tc.notes, notes, tc.reason)
			contains(t, tc.warnings, warnings, tc.reason)
		})
	}
	broken := config("ProviderConfig", "aws", 1, "")
	broken["spec"] = map[string]any{"assumeRoleChain": "x"}
	_, notes, _ := write(t, Of(input.AWSSessionPerXR, xr("shop", false)), requestOf(objects{"config": broken}, nil))
	contains(t, "cannot be set: ProviderConfig.aws.m.upbound.io/shop/aws (spec.assumeRoleChain is no list)", notes, "what the API server refuses is left to it")
}

// contains asserts that there is exactly one text, with another in it; none for "".
func contains(t *testing.T, want string, texts []string, reason string) {
	t.Helper()
	if want == "" {
		assert.Empty(t, texts, reason)
		return
	}
	if assert.Len(t, texts, 1, reason) {
		assert.Contains(t, texts[0], want, reason)
	}
}

// TestShared covers KR-08-71: what the Composition does not compose is never changed, and one warning names what lacks the tag.
func TestShared(t *testing.T) {
	const kind, named = "providerconfigs.aws.m.upbound.io", "ProviderConfig.aws.m.upbound.io/shop/team"
	installed := map[string]any{"kind": "CustomResourceDefinition"}
	for name, tc := range map[string]struct {
		reason            string
		desired, observed objects
		// kinds and configs that were required; nil where Crossplane did not look.
		kinds, configs []map[string]any
		want           string
	}{
		"Matches": {reason: "nothing to do", kinds: []map[string]any{installed}, configs: []map[string]any{config("ProviderConfig", "team", 2, origin)}},
		"Other": {reason: "the tag of another", kinds: []map[string]any{installed}, configs: []map[string]any{config("ProviderConfig", "team", 1, "root")},
			want: named + ` (kausality-origin is "root")`},
		"Missing": {reason: "no tag", kinds: []map[string]any{installed}, configs: []map[string]any{config("ProviderConfig", "team", 1, "")},
			want: named + " (its first role has no transitive kausality-origin)"},
		"NoRole": {reason: "no session", kinds: []map[string]any{installed}, configs: []map[string]any{config("ProviderConfig", "team", 0, "")},
			want: named + " (it assumes no role: spec.assumeRoleChain is empty)"},
		"Gone":     {reason: "it does not exist", kinds: []map[string]any{installed}, configs: []map[string]any{}, want: named + " (it does not exist)"},
		"Unread":   {reason: "by a Crossplane that gives no required resources", want: named + " (it was not read)"},
		"NoKind":   {reason: "the provider is not installed", kinds: []map[string]any{}, want: named + " (its kind is not installed)"},
		"Composed": {reason: "its own is no shared one", desired: objects{"own": config("ProviderConfig", "team", 1, origin)}},
		"Generated": {reason: "its own, whose name Crossplane generated", desired: objects{"own": config("ProviderConfig", "", 1, origin)},
			observed: objects{"own": config("ProviderConfig", "team", 1, origin)}},
		"OtherKind": {reason: "another kind with the name",
			kinds: []map[string]any{installed}, desired: objects{"own": config("ClusterProviderConfig", "team", 1, origin)},
			configs: []map[string]any{config("ProviderConfig", "team", 0, "")}, want: named + " (it assumes no role"},
	} {
		t.Run(name, func(t *testing.T) {
			desired := objects{"a": bucket("ProviderConfig", "team"), "b": bucket("ProviderConfig", "team")}
			for k, v := range tc.desired {
				desired[k] = v
			}
			req := requestOf(desired, tc.observed)
			require := func(name string, items []map[string]any) {
				if items != nil {
					req.RequiredResources[name] = &fnv1.Resources{Items: itemsOf(items)}
				}
			}
			require(RequirementKind+kind, tc.kinds)
			require(RequirementConfig+named, tc.configs)
			got, notes, warnings := write(t, Of(input.AWSSessionPerXR, xr("shop", false)), req)
			assert.Equal(t, desired, got, tc.reason)
			contains(t, tc.want, notes, tc.reason)
			assert.Empty(t, warnings, tc.reason)
		})
	}
}

func itemsOf(objects []map[string]any) (out []*fnv1.Resource) {
	for _, o := range objects {
		out = append(out, &fnv1.Resource{Resource: ssa.ToStruct(o)})
	}
	return out
}

// TestRequire covers KR-08-71: a kind is required before its objects, since one that is not installed fails the pipeline.
func TestRequire(t *testing.T) {
	req := requestOf(objects{"a": bucket("ProviderConfig", "team"), "b": bucket("", ""), "c": {"apiVersion": "s3.aws.crossplane.io/v1", "kind": "Bucket",
		"spec": map[string]any{"forProvider": map[string]any{}}}}, nil)
	s := Of(input.AWSSessionPerXR, xr("shop", false))
	required := func(s Session) map[string]*fnv1.ResourceSelector {
		rsp := &fnv1.RunFunctionResponse{Requirements: &fnv1.Requirements{Resources: map[string]*fnv1.ResourceSelector{}}}
		s.Require(req, rsp)
		return rsp.GetRequirements().GetResources()
	}
	const namespaced, cluster = "providerconfigs.aws.m.upbound.io", "clusterproviderconfigs.aws.m.upbound.io"
	want := map[string]*fnv1.ResourceSelector{
		RequirementKind + namespaced: selector("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", namespaced),
		RequirementKind + cluster:    selector("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", cluster),
	}
	assert.Empty(t, cmp.Diff(want, required(s), protocmp.Transform()))
	req.RequiredResources[RequirementKind+namespaced] = &fnv1.Resources{Items: []*fnv1.Resource{{}}}
	req.RequiredResources[RequirementKind+cluster] = &fnv1.Resources{}
	want[RequirementConfig+"ProviderConfig.aws.m.upbound.io/shop/team"] = selector("aws.m.upbound.io/v1beta1", "ProviderConfig", "shop", "team")
	assert.Empty(t, cmp.Diff(want, required(s), protocmp.Transform()), "and nothing of a kind that is not installed")
	assert.Empty(t, required(Of("", xr("shop", false))), "nothing is configured")
	assert.Empty(t, required(Of(input.AWSSessionPerClaim, xr("shop", false))), "there is nothing to compare with")
	older := &fnv1.RunFunctionResponse{Requirements: &fnv1.Requirements{ExtraResources: map[string]*fnv1.ResourceSelector{}}}
	s.Require(req, older)
	assert.Len(t, older.GetRequirements().GetExtraResources(), 3, "in the field that an older Crossplane supports") //nolint:staticcheck // As the code.
}

// TestManyShared covers KR-08-71: however many there are, the warning and what is read are bounded.
func TestManyShared(t *testing.T) {
	desired := objects{}
	for i := range maxShared + 4 {
		desired[fmt.Sprint(i)] = bucket("ProviderConfig", fmt.Sprintf("team-%02d", i))
	}
	req := requestOf(desired, nil)
	req.RequiredResources[RequirementKind+"providerconfigs.aws.m.upbound.io"] = &fnv1.Resources{Items: []*fnv1.Resource{{}}}
	s := Of(input.AWSSessionPerXR, xr("shop", false))
	_, notes, _ := write(t, s, req)
	contains(t, "ProviderConfig.aws.m.upbound.io/shop/team-02 (it was not read) and 17 more; compose one", notes, "three are named")
	rsp := &fnv1.RunFunctionResponse{Requirements: &fnv1.Requirements{Resources: map[string]*fnv1.ResourceSelector{}}}
	s.Require(req, rsp)
	assert.Len(t, rsp.GetRequirements().GetResources(), maxShared+1)
	for name := range rsp.GetRequirements().GetResources() {
		assert.True(t, strings.HasPrefix(name, "kausality.io/"), "%s is not the user's", name)
	}
}
