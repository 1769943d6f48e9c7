package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// blocks of a language in docs/install.md, in their order.
func (l *lab) blocks(language string) ([]string, error) {
	raw, err := os.ReadFile(filepath.Join(l.root, "docs", "install.md"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
		out = append(out, m[1])
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("docs/install.md has no %s", language)
	}
	return out, nil
}

// documented arguments of helm, as docs/install.md has them for a newcomer, with
// another chart in place of the repository's.
func (l *lab) documented(chart string) ([]string, error) {
	list, err := l.blocks("shell")
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(strings.ReplaceAll(list[0], "\\\n", ""), "\n")
	line = strings.NewReplacer("REPOSITORY", "registry.example.org/kausality", "TAG", "v0.1.0").Replace(line)
	args := strings.Fields(line)
	const path = "package/helm/kausality"
	if len(args) < 4 || strings.Join(args[:4], " ") != "helm install kausality "+path {
		return nil, fmt.Errorf("docs/install.md begins with %q", line)
	}
	args[3] = chart
	return args[1:], nil
}

// TestDocumented: what docs/install.md gives to apply is taken and works: the
// first policy, and each step from log to enforce.
func TestDocumented(t *testing.T) {
	list, err := the.blocks("yaml")
	must(t, err)
	name := ""
	for _, text := range list {
		o := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal([]byte(text), &o.Object))
		if o.GetKind() == "" { // a part of the policy before
			patch, err := json.Marshal(o.Object)
			must(t, err)
			_, err = the.admin.Resource(kausality).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
			must(t, err)
		} else {
			name = o.GetName()
			_, err := the.admin.Resource(kausality).Create(t.Context(), o, metav1.CreateOptions{})
			must(t, err)
			t.Cleanup(func() {
				if err := the.admin.Resource(kausality).Delete(context.Background(), o.GetName(), forget); err != nil {
					t.Error(err)
				}
			})
		}
		awaitPolicy(t, name)
	}
	if len(list) < 2 {
		t.Errorf("only %d things to apply were found", len(list))
	}
	e, err := entry(t.Context(), name+"-2.admission.kausality.io")
	must(t, err)
	if e["failurePolicy"] != "Ignore" {
		t.Errorf("outside of the enforced Namespaces the failure policy is %v", e["failurePolicy"])
	}
}

// TestPolicyCheck: an expression that does not compile is refused when it is
// written, in an installation of the chart, too.
func TestPolicyCheck(t *testing.T) {
	policy(t, "shop", map[string]any{"mode": "log"})
	rule := map[string]any{"kind": "App", "mode": "always", "match": map[string]any{"cel": "object.spec.size =="}}
	bad := object("kausality.io/v1alpha1", "ClusterApprovalPolicy", "", "bad", map[string]any{"rules": []any{rule}})
	eventually(t, "the API server to refuse it", func(ctx context.Context) error { // it learns of a webhook within a second
		_, err := the.admin.Resource(kausality.GroupVersion().WithResource("clusterapprovalpolicies")).Create(ctx, bad, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if kerrors.IsInvalid(err) && strings.Contains(err.Error(), "rules") {
			return nil
		}
		return errors.Join(errors.New("it is not refused"), err)
	})
}
