package fn

import (
	"strings"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/session"
)

// providerConfig of AWS with one role.
func providerConfig(roleName string) map[string]any {
	return map[string]any{"apiVersion": "aws.m.upbound.io/v1beta1", "kind": "ProviderConfig", "metadata": map[string]any{"name": "aws"},
		"spec": map[string]any{"credentials": map[string]any{"source": "IRSA"}, "assumeRoleChain": []any{
			map[string]any{"roleARN": "arn:aws:iam::111122223333:role/crossplane/" + roleName, "tags": []any{map[string]any{"key": "team", "value": "shop"}}},
		}}}
}

// sessionTag of the live ProviderConfig "pc"; "" for none.
func (s *stage) sessionTag() string {
	chain, _ := s.field("pc", "spec", "assumeRoleChain").([]any)
	list, _ := asMap(chain[0])["tags"].([]any)
	for _, e := range list {
		if asMap(e)["key"] == "kausality-origin" {
			return asMap(e)["value"].(string)
		}
	}
	return ""
}

const (
	withSession   = `{"mode":"enforce","settleGrace":"10s","external":{"aws":{"session":{"per":"XR"}}}}`
	logsSession   = `{"mode":"log","settleGrace":"10s","external":{"aws":{"session":{"per":"XR"}}}}`
	sessionOfTest = "XDatabase.example.org/shop/db"
)

// The session tag is part of what the Composition wants: it is created with the ProviderConfig, and no intent changes it (KR-08-70).
func TestSession(t *testing.T) {
	for name, input := range map[string]string{"Enforce": withSession, "Log": logsSession} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, input)
			want := desire{"pc": providerConfig("a")}
			s.reconcile(want)
			assert.Equal(t, sessionOfTest, s.sessionTag())
			assert.NotEmpty(t, s.live["pc"].GetAnnotations()[v1alpha1.AnnotationKeyTrace], "it is traced")
			s.stable(want)
			s.settle(want)
			s.now = s.now.Add(time.Minute)
			s.intend(2)
			s.reconcile(want)
			s.wantWrites()
			assert.Equal(t, sessionOfTest, s.sessionTag(), "it has no generation")
		})
	}
}

// Where the setting comes later, the change of a ProviderConfig that exists is one that no intent requests: it is held until it is approved. So is what a
// Composition changes (KR-08-70).
func TestSessionHeld(t *testing.T) {
	s := newStage(t, enforce)
	want := desire{"pc": providerConfig("a")}
	s.reconcile(want)
	s.settle(want)
	s.input = withSession
	s.reconcile(want)
	s.wantWrites("hold pc")
	assert.Empty(t, s.sessionTag())
	assert.Contains(t, strings.Join(s.held("pc").Paths, " "), "spec.assumeRoleChain")
	s.stable(want)
	s.annotate(s.suggested()[0], "once")
	s.reconcile(want)
	s.wantWrites("update pc")
	assert.Equal(t, sessionOfTest, s.sessionTag())
	s.stable(want)

	want["pc"] = providerConfig("admin")
	s.reconcile(want)
	s.wantWrites("hold pc")
	assert.Equal(t, sessionOfTest, s.sessionTag())
	s.stable(want)
}

// A shared ProviderConfig is read and compared, and the condition reports what lacks the tag (KR-08-71).
func TestSessionShared(t *testing.T) {
	const kind = session.RequirementKind + "clusterproviderconfigs.aws.m.upbound.io"
	s := newStage(t, withSession)
	want := desire{"a": bucket("eu", nil)}
	s.reconcile(want)
	_, reason, message := s.condition()
	assert.Equal(t, v1alpha1.ConditionReasonAllowed, reason)
	assert.Contains(t, message, "ClusterProviderConfig.aws.m.upbound.io/default (it was not read)")
	require.Contains(t, s.rsp.GetRequirements().GetExtraResources(), kind) //nolint:staticcheck // For Crossplane before 2.2.
	tagged := asMap(s.live["a"].DeepCopy().Object)                         // any content, of which the chain counts
	tagged["spec"] = map[string]any{"assumeRoleChain": []any{map[string]any{
		"tags": []any{map[string]any{"key": "kausality-origin", "value": sessionOfTest}}, "transitiveTagKeys": []any{"kausality-origin"}}}}
	s.required = map[string]*fnv1.Resources{kind: resources(tagged),
		session.RequirementConfig + "ClusterProviderConfig.aws.m.upbound.io/default": resources(tagged)}
	s.reconcile(want)
	_, _, message = s.condition()
	assert.NotContains(t, message, "ClusterProviderConfig")
}
