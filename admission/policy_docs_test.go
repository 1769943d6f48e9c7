package admission

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/allowance"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var named = regexp.MustCompile("(?s)<!-- (example|result): ([a-z]+) -->\n```yaml\n(.*?)```")

// documented are the examples of docs/policies.md by their names, verbatim.
func documented(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range named.FindAllStringSubmatch(string(raw), -1) {
		out[m[1]+" "+m[2]] = m[3]
	}
	if blocks := strings.Count(string(raw), "```yaml"); blocks != len(out) {
		t.Errorf("%d of %d YAML blocks have a name, by which they are tested", len(out), blocks)
	}
	return out
}

// TestDocumentation plays what docs/policies.md describes.
func TestDocumentation(t *testing.T) {
	docs := documented(t)
	example := func(name string) *allowance.Set {
		return policySet(t, strings.Split(docs["example "+name], "---\n")...)
	}
	t.Run("deployment", func(t *testing.T) {
		d := fx.With(deployment(), fx.Unannotate("approved-by"))
		rs := replicaSet(d)
		p := newPlay(t, example("deployment"), d, rs, pod(rs, "foo-abc-1"))
		p.want(p.update(hans, "kubectl", "foo", fx.Set(int64(1), "spec", "replicas")), outcome.ReasonNoParent)
		p.holds("foo", docs["result deployment"])
		p.want(p.update(fx.Deployer, "", "foo-abc", fx.Set(int64(1), "spec", "replicas")), outcome.ReasonExpected)
		p.holds("foo-abc", docs["result replicaset"])
		p.want(p.remove(replicaset, "foo-abc-1"), outcome.ReasonExpected)

		d = fx.With(d, fx.Unannotate("jira"))
		p = newPlay(t, example("deployment"), d, replicaSet(d))
		p.want(p.update(hans, "kubectl", "foo", func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"name": "app", "image": "app:2"}}, "spec", "template", "spec", "containers")
		}), outcome.ReasonNoParent)
		created := fx.With(replicaSet(d), func(o *unstructured.Unstructured) {
			o.SetAnnotations(nil)
			o.SetUID("")
			o.SetGeneration(0)
			o.SetName("foo-def")
		})
		refused := p.create(fx.Deployer, "", created)
		p.want(refused, outcome.ReasonAllowanceMissing)
		if !strings.Contains(refused.Message, "creating ReplicaSet default/foo-def by system:serviceaccount:kube-system:deployment-controller "+
			"is not allowed: no allowance on Deployment default/foo covers create (AllowancePolicy deployments)") {
			t.Errorf("message %q", refused.Message)
		}
	})
	t.Run("claim", func(t *testing.T) {
		xr := xdatabase()
		p := newPlay(t, example("claim"), claim(), xr, rdsInstance(xr))
		p.want(p.update(hans, "kubectl", "my-database", fx.Set("large", "spec", "size")), outcome.ReasonNoParent)
		p.want(p.update(fx.Crossplane, managerXR, "my-database-xyz", fx.Set("large", "spec", "size")), outcome.ReasonExpected)
		d := p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", setClass("db.t3.large"))
		p.want(d, outcome.ReasonExpected)
		if d.Gate == nil || d.Gate.State != v1alpha1.GateOpen {
			t.Errorf("gate %+v", d.Gate)
		}
	})
	t.Run("upgrade", func(t *testing.T) {
		xr := xdatabase()
		bronze := fx.With(rdsInstance(xr), func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"tier": "bronze"}) },
			fx.Annotate(v1alpha1.AnnotationKeyFingerprint, "b1"))
		p := newPlay(t, example("upgrade"), claim(), xr, bronze)
		p.e.World = &builder{memoryWorld: p.w, build: allowance.Build{Fingerprint: "b2", Images: []string{"xpkg.example.org/crossplane:v2.3.1"}}}
		p.want(p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", fx.Set("gold", "spec", "forProvider", "tags", "tier")), outcome.ReasonUpgraded)
		p.want(p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", fx.Set("silver", "spec", "forProvider", "tags", "tier")), outcome.ReasonDrift)
	})
	t.Run("exception", func(t *testing.T) {
		xr := xdatabase()
		dev := fx.With(rdsInstance(xr), func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"env": "dev"}) })
		p := newPlay(t, example("exception"), claim(), xr, dev)
		p.want(p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", setClass("db.m5.large")), outcome.ReasonDrift)
		p.want(p.update(fx.Crossplane, managerMR, "my-database-xyz-rds", setClass("db.t3.large")), outcome.ReasonExcepted)
	})
	t.Run("autoscaler", func(t *testing.T) {
		xr := xdatabase()
		composed := fx.With(deployment(), func(o *unstructured.Unstructured) {
			o.SetNamespace("team-a")
			o.SetOwnerReferences(rdsInstance(xr).GetOwnerReferences())
		})
		p := newPlay(t, example("autoscaler"), claim(), xr, composed)
		policies := p.e.Policies
		p.e = under(func(s *v1alpha1.KausalitySpec) {
			s.Resources = []v1alpha1.GuardedResources{{APIGroups: []string{"apps"}, Resources: []string{"deployments"}}}
			s.Mode, s.OtherActors = v1alpha1.ModeEnforce, v1alpha1.OtherActorsRequireApproval
		}).of(p.e.World)
		p.e.Policies = policies
		scaler := subject.User{Name: "system:serviceaccount:kube-system:horizontal-pod-autoscaler", Groups: []string{"system:serviceaccounts"}}
		scaled := func(n int64) Decision {
			return p.update(scaler, "kube-controller-manager", "foo", fx.Set(n, "spec", "replicas"))
		}
		p.want(scaled(11), outcome.ReasonDrift)
		p.want(scaled(7), outcome.ReasonExcepted)
		p.want(p.update(hans, "kubectl", "foo", fx.Set(int64(8), "spec", "replicas")), outcome.ReasonDrift)
	})
}
