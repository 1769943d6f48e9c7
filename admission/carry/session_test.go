package carry

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
)

// config is a ProviderConfig with a chain of roles; nil for none.
func config(chain any) map[string]any {
	spec := map[string]any{"credentials": map[string]any{"source": "IRSA"}}
	if chain != nil {
		spec["assumeRoleChain"] = chain
	}
	return map[string]any{"apiVersion": "aws.m.upbound.io/v1beta1", "kind": "ProviderConfig", "spec": spec}
}

// role of a chain; nil lists are absent.
func role(tags, keys any) map[string]any {
	out := map[string]any{"roleARN": "arn:aws:iam::111122223333:role/crossplane/orders"}
	if tags != nil {
		out["tags"] = tags
	}
	if keys != nil {
		out["transitiveTagKeys"] = keys
	}
	return out
}

func pair(key, value string) any { return map[string]any{"key": key, "value": value} }

// others are as many tags of others.
func others(n int) (out []any) {
	for i := range n {
		out = append(out, pair(fmt.Sprintf("t%d", i), "v"))
	}
	return out
}

// TestWithSession covers KR-08-70 and KR-08-71: what the tag looks like in a ProviderConfig, and what is wrong with one that lacks it.
func TestWithSession(t *testing.T) {
	const origin = "XDatabase.example.org/shop/orders"
	ours, team := pair(TagSession, origin), pair("team", "shop")
	with := []any{role([]any{ours}, []any{TagSession})}
	for name, tc := range map[string]struct {
		reason   string
		chain    any
		want     []any
		replaced []string
		fails    string
		fault    string
	}{
		"Bare": {reason: "neither tags nor keys", chain: []any{role(nil, nil)}, want: with, fault: "its first role has no transitive kausality-origin"},
		"Has":  {reason: "it stays as it is", chain: with, want: with},
		"Others": {reason: "the author's stay, in their order", chain: []any{role([]any{team}, []any{"team"})},
			want: []any{role([]any{team, ours}, []any{"team", TagSession})}, fault: "its first role has no transitive kausality-origin"},
		"InPlace": {reason: "no reordering is drift", chain: []any{role([]any{ours, team}, []any{TagSession, "team"})},
			want: []any{role([]any{ours, team}, []any{TagSession, "team"})}},
		"NotTransitive": {reason: "later sessions would lack it", chain: []any{role([]any{ours}, nil)}, want: with,
			fault: "its first role has no transitive kausality-origin"},
		"Forged": {reason: "another value is replaced, and reported", chain: []any{role([]any{pair(TagSession, "root"), team}, []any{TagSession})},
			want: []any{role([]any{team, ours}, []any{TagSession})}, replaced: []string{"root"}, fault: `kausality-origin is "root"`},
		"Case": {reason: "AWS compares keys without case", chain: []any{role([]any{pair("Kausality-Origin", "root")}, []any{"KAUSALITY-ORIGIN"})},
			want: with, replaced: []string{"root"}, fault: `kausality-origin is "root"`},
		"Twice": {reason: "AWS refuses two", chain: []any{role([]any{ours, pair("Kausality-origin", origin)}, []any{TagSession, TagSession})}, want: with,
			fault: "its first role has no transitive kausality-origin"},
		"Chain": {reason: "later roles inherit it", chain: []any{role(nil, nil), role([]any{team}, nil)},
			want: []any{with[0], role([]any{team}, nil)}, fault: "its first role has no transitive kausality-origin"},
		"Later": {reason: "AWS refuses to assume a role with an inherited tag",
			chain: []any{role(nil, nil), role([]any{pair(TagSession, "root"), team}, []any{TagSession})},
			want:  []any{with[0], role([]any{team}, nil)}, replaced: []string{"root"}, fault: `kausality-origin is "root"`},
		"Empty":   {reason: "empty lists of a later role stay", chain: []any{with[0], role([]any{}, []any{})}, want: []any{with[0], role([]any{}, []any{})}},
		"NoChain": {reason: "there is no session", fails: ErrNoRole.Error()},
		"NoRole":  {reason: "there is no session", chain: []any{}, fails: ErrNoRole.Error()},
		"Room": {reason: "fifty with it", chain: []any{role(others(MaxTags-1), nil)},
			want: []any{role(append(others(MaxTags-1), ours), []any{TagSession})}, fault: "its first role has no transitive kausality-origin"},
		"NoRoom": {reason: "AWS allows fifty", chain: []any{role(others(MaxTags), nil)},
			fails: "spec.assumeRoleChain[0].tags has no room for kausality-origin: AWS allows 50"},
		"Map":  {reason: "the API server refuses it", chain: map[string]any{"roleARN": "x"}, fails: "spec.assumeRoleChain is no list"},
		"Text": {reason: "the API server refuses it", chain: []any{"x"}, fails: "spec.assumeRoleChain[0] is no object"},
		"TagsMap": {reason: "the API server refuses it", chain: []any{role(map[string]any{}, nil)},
			fails: "spec.assumeRoleChain[0].tags is no list"},
		"KeysText": {reason: "of a later role, too", chain: []any{role(nil, nil), role(nil, "team")},
			fails: "spec.assumeRoleChain[1].transitiveTagKeys is no list"},
	} {
		t.Run(name, func(t *testing.T) {
			content := config(tc.chain)
			before := runtime.DeepCopyJSON(content)
			got, replaced, err := WithSession(content, origin)
			assert.Equal(t, before, content, "%s: the content was modified", tc.reason)
			assert.Equal(t, cmp.Or(tc.fails, tc.fault), SessionFault(content, origin), tc.reason)
			assert.Equal(t, tc.replaced, replaced, tc.reason)
			if tc.fails != "" {
				require.EqualError(t, err, tc.fails, tc.reason)
				assert.Equal(t, before, got, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			assert.Equal(t, config(tc.want), got, tc.reason)
			again, replaced, err := WithSession(got, origin)
			require.NoError(t, err, tc.reason)
			assert.Equal(t, got, again, "%s: twice is not once", tc.reason)
			assert.Empty(t, replaced, tc.reason)
			assert.Empty(t, SessionFault(got, origin), tc.reason)
		})
	}
}

// TestSessionOf covers KR-08-70: AWS accepts each value, and it identifies one object.
func TestSessionOf(t *testing.T) {
	xdatabase := schema.GroupKind{Group: "example.org", Kind: "XDatabase"}
	assert.Equal(t, "XDatabase.example.org/shop/orders", SessionOf(xdatabase, "shop", "orders"), "as origins are written, without a generation")
	assert.Equal(t, "XDatabase.example.org/orders", SessionOf(xdatabase, "", "orders"), "a cluster-scoped one has no namespace")
	long := SessionOf(xdatabase, "shop", strings.Repeat("a", 253))
	assert.Len(t, long, MaxTagValue, "a value that is too long is cut")
	assert.NotEqual(t, long, SessionOf(xdatabase, "shop", strings.Repeat("a", 252)+"b"), "two long names stay different")
	assert.LessOrEqual(t, len(TagSession), MaxTagKey)
	allowed := regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`) // AWS's own pattern
	rapid.Check(t, func(t *rapid.T) {
		value := SessionOf(schema.GroupKind{Group: "example.org", Kind: "XDatabase"}, rapid.String().Draw(t, "namespace"), rapid.String().Draw(t, "name"))
		if !allowed.MatchString(value) || len([]rune(value)) > MaxTagValue {
			t.Fatalf("AWS refuses %q", value)
		}
	})
}

// TestSessionOfClaim covers KR-08-70: what Crossplane binds is the Claim, not what a label names.
func TestSessionOfClaim(t *testing.T) {
	ref := map[string]any{"apiVersion": "example.org/v1", "kind": "Database", "namespace": "shop", "name": "orders"}
	for name, tc := range map[string]struct {
		reason string
		spec   map[string]any
		want   string
	}{
		"Claim": {reason: "as origins are written", spec: map[string]any{"claimRef": ref}, want: "Database.example.org/shop/orders"},
		"None":  {reason: "labels alone name no Claim", spec: map[string]any{}},
		"Modern": {reason: "a composite with spec.crossplane has no Claim: the field is its author's",
			spec: map[string]any{"claimRef": ref, "crossplane": map[string]any{}}},
	} {
		t.Run(name, func(t *testing.T) {
			xr := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "XDatabase", "spec": tc.spec,
				"metadata": map[string]any{"name": "orders-x", "labels": map[string]any{"crossplane.io/claim-name": "other", "crossplane.io/claim-namespace": "other"}}}}
			assert.Equal(t, tc.want, SessionOfClaim(xr), tc.reason)
		})
	}
}

// TestConfigOf covers KR-08-71: which ProviderConfig a resource has its calls made by.
func TestConfigOf(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, group string
		ref           any
		want          string
		chain         bool
	}{
		"Namespaced": {reason: "one of the namespace", group: "s3.aws.m.upbound.io", ref: map[string]any{"kind": "ProviderConfig", "name": "a"},
			want: "ProviderConfig.aws.m.upbound.io/shop/a", chain: true},
		"Cluster": {reason: "one of all namespaces", group: "s3.aws.m.upbound.io", ref: map[string]any{"kind": "ClusterProviderConfig", "name": "a"},
			want: "ClusterProviderConfig.aws.m.upbound.io/a", chain: true},
		"Default": {reason: "as the CustomResourceDefinition has it", group: "s3.aws.m.upbound.io",
			want: "ClusterProviderConfig.aws.m.upbound.io/default", chain: true},
		"Legacy": {reason: "a cluster-scoped resource", group: "s3.aws.upbound.io", ref: map[string]any{"name": "a"},
			want: "ProviderConfig.aws.upbound.io/a", chain: true},
		"LegacyDefault": {reason: "as the CustomResourceDefinition has it", group: "s3.aws.upbound.io",
			want: "ProviderConfig.aws.upbound.io/default", chain: true},
		"Classic": {reason: "the older provider has no chain", group: "s3.aws.crossplane.io", want: "ProviderConfig.aws.crossplane.io/default"},
		"Other":   {reason: "another cloud", group: "storage.gcp.upbound.io"},
		"Config":  {reason: "a ProviderConfig refers to none", group: "aws.m.upbound.io"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := map[string]any{"forProvider": map[string]any{}}
			if tc.ref != nil {
				spec["providerConfigRef"] = tc.ref
			}
			got, ok := ConfigOf(schema.GroupKind{Group: tc.group, Kind: "Bucket"}, "shop", map[string]any{"spec": spec})
			require.Equal(t, tc.want != "", ok, tc.reason)
			if ok {
				assert.Equal(t, tc.want, got.String(), tc.reason)
				assert.Equal(t, tc.chain, HasChain(got.GroupKind), tc.reason)
				delete(spec, "forProvider")
				_, ok = ConfigOf(schema.GroupKind{Group: tc.group, Kind: "Bucket"}, "shop", map[string]any{"spec": spec})
				assert.False(t, ok, "what has no spec.forProvider is no managed resource")
			}
		})
	}
	assert.False(t, HasChain(schema.GroupKind{Group: "aws.upbound.io", Kind: "ClusterProviderConfig"}))
	assert.False(t, HasChain(schema.GroupKind{Group: "aws.m.upbound.io", Kind: "ProviderConfigUsage"}))
}
