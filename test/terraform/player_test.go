package terraform

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

var (
	workspaces = schema.GroupVersionResource{Group: "opentofu.m.upbound.io", Version: "v1beta1", Resource: "workspaces"}

	archive = story.Definition{
		Group: "example.org", Version: "v1alpha1", Kind: "XArchive", Plural: "xarchives",
		Spec: "{size: {type: string}, owner: {type: string}, region: {type: string}}",
	}
)

const namespace = "default"

// policy guards what the tests compose, and has the cause of a change reach the runs.
const policy = `
apiVersion: kausality.io/v1alpha1
kind: Kausality
metadata: {name: archives}
spec:
  mode: enforce
  resources:
  - {apiGroups: [example.org], resources: [xarchives]}
  - {apiGroups: [opentofu.m.upbound.io], resources: [workspaces]}
  external: {provenance: [TerraformEnv]}
`

// module of a Workspace. The third resource is changed after the second, whose postcondition fails where the size is more than a quota.
const module = `
                variable "size" { type = string }
                variable "owner" { type = string }
                variable "region" { type = string }
                variable "kausality_origin" {
                  type    = string
                  default = ""
                }
                resource "terraform_data" "first" { input = { size = var.size, owner = var.owner, tier = "TIER" } }
                resource "terraform_data" "second" {
                  input = terraform_data.first.output
                  lifecycle {
                    postcondition {
                      condition     = tonumber(self.output.size) <= tonumber(fileexists("${path.root}/quota") ? file("${path.root}/quota") : 1000)
                      error_message = "the quota is used up"
                    }
                  }
                }
                resource "terraform_data" "third" { input = terraform_data.second.output }
                resource "terraform_data" "bucket" { triggers_replace = var.region }
                output "size" { value = terraform_data.third.output.size }`

func composition(tier string) []byte {
	return archive.Composition("xarchives.example.org", `
      - name: retention
        base:
          apiVersion: opentofu.m.upbound.io/v1beta1
          kind: Workspace
          spec:
            forProvider:
              source: Inline
              module: |`+strings.ReplaceAll(module, "TIER", tier)+`
              vars: [{key: size, value: ""}, {key: owner, value: ""}, {key: region, value: ""}]
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: "spec.forProvider.vars[0].value"}
        - {type: FromCompositeFieldPath, fromFieldPath: spec.owner, toFieldPath: "spec.forProvider.vars[1].value"}
        - {type: FromCompositeFieldPath, fromFieldPath: spec.region, toFieldPath: "spec.forProvider.vars[2].value"}`, story.StepAutoReady)
}

// player of a Workspace, with what it runs on.
type player struct {
	*testing.T
	e           *story.Env
	admin, hans dynamic.Interface
	tofu, dir   string
	plugin      string
	// planning: runs report what plan would change.
	planning bool
}

func start(t *testing.T, planning bool) *player {
	t.Helper()
	ctx, e := story.StartTest(t, story.Options{Webhook: true, WithoutObjects: true,
		Resources: []string{"workspaces.opentofu.m.upbound.io", "workspaces.tf.upbound.io"}})
	bins, err := parts.Ensure(ctx, os.Stderr, "", parts.Kausality, parts.KubectlKausality, parts.Tofu, parts.TestProvider)
	require.NoError(t, err)
	p := &player{T: t, e: e, planning: planning, tofu: bins[parts.Tofu], plugin: bins[parts.KubectlKausality], dir: filepath.Join(e.Dir(), "tf")}
	p.admin, err = dynamic.NewForConfig(e.Config())
	require.NoError(t, err)
	p.hans, err = e.As(story.Hans)
	require.NoError(t, err)
	root, err := parts.Root()
	require.NoError(t, err)
	for _, crd := range []string{"opentofu.m.upbound.io_workspaces.yaml", "tf.upbound.io_workspaces.yaml"} {
		raw, err := os.ReadFile(filepath.Join(root, "test", "provider", "crds", crd))
		require.NoError(t, err)
		require.NoError(t, e.Apply(ctx, raw))
	}
	require.NoError(t, e.Grant(ctx, story.Hans, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}))
	p.serve(bins)
	require.NoError(t, e.Apply(ctx, []byte(policy)))
	require.NoError(t, e.Apply(ctx, archive.XRD()))
	wait.For(t, "the Composition to be applied", wait.Patience, func(ctx context.Context) error { return e.Apply(ctx, composition("bronze")) })
	return p
}

// serve runs the provider, with a program in the place of tofu as docs/external.md has it, which also notes its commands.
func (p *player) serve(bins parts.Paths) {
	p.Helper()
	program := filepath.Join(p.e.Dir(), "tofu")
	script := fmt.Sprintf("#!/bin/sh\necho \"$1 allowed=$KAUSALITY_ALLOWED initiator=$KAUSALITY_INITIATOR origin=$KAUSALITY_ORIGIN\" >>%s\n"+
		"exec %s terraform exec -- %s \"$@\"\n", p.commandsFile(), bins[parts.Kausality], p.tofu)
	require.NoError(p, os.WriteFile(program, []byte(script), 0o700)) //nolint:gosec // A program.
	kubeconfig, err := p.e.ServiceAccountKubeconfig(p.Context(), "crossplane-system", "provider-opentofu")
	require.NoError(p, err)
	cmd := exec.Command(bins[parts.TestProvider], "terraform", "--kubeconfig="+kubeconfig, "--program="+program, "--dir="+p.dir,
		"--poll-interval=1s", "--max-requeue-delay=2s", "--creation-grace-period=0s")
	cmd.Args[0] = "provider"
	cmd.Env = append(os.Environ(), fmt.Sprintf("KAUSALITY_PLANNING=%t", p.planning), "TMPDIR="+p.e.Dir(), "CHECKPOINT_DISABLE=1",
		"TF_IN_AUTOMATION=1", "TF_CLI_CONFIG_FILE="+os.DevNull)
	_, err = p.e.Serve(p.Context(), "provider-opentofu", cmd)
	require.NoError(p, err)
}

func (p *player) commandsFile() string { return filepath.Join(p.e.Dir(), "tofu-commands") }

// changes returns the commands of the provider that may change something.
func (p *player) changes() (out []string) {
	p.Helper()
	raw, err := os.ReadFile(p.commandsFile())
	if !os.IsNotExist(err) {
		require.NoError(p, err)
	}
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "apply ") || strings.HasPrefix(line, "destroy ") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

func (p *player) with(t *testing.T) *player {
	q := *p
	q.T = t
	return &q
}

// workspace of the XArchive.
func (p *player) workspace(ctx context.Context) (*unstructured.Unstructured, error) {
	list, err := p.admin.Resource(workspaces).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	if len(list.Items) != 1 {
		return nil, fmt.Errorf("there are %d Workspaces", len(list.Items))
	}
	return &list.Items[0], nil
}

// closed waits until the gate is closed, and the provider has observed that with this size.
func (p *player) closed(size string) *unstructured.Unstructured {
	p.Helper()
	var mr *unstructured.Unstructured
	wait.For(p, "the gate to be closed at size "+size, wait.Patience, func(ctx context.Context) (err error) {
		if mr, err = p.workspace(ctx); err != nil {
			return err
		}
		gate := mask.ParseGate(mr.GetAnnotations())
		got, _, _ := unstructured.NestedString(mr.Object, "status", "atProvider", "outputs", "size")
		observed := gate.Observed != nil && gate.Observed.Generation == mr.GetGeneration()
		if p.planning {
			differs, reported, _ := unstructured.NestedBool(mr.Object, "status", "atProvider", "outputs", "kausality_plan", "differs")
			observed = reported && !differs && story.SyncedGeneration(mr) == mr.GetGeneration()
		}
		if gate.State != v1alpha1.GateClosed || !observed || got != size {
			return fmt.Errorf("the gate is %+v, the size %q, the status %v", gate, got, mr.Object["status"])
		}
		return nil
	})
	return mr
}

// set a field of the spec of the XArchive, as hans. It returns what the provider runs for that.
func (p *player) set(field, value string) (run string) {
	p.Helper()
	o, err := p.hans.Resource(archive.Resource()).Namespace(namespace).Patch(p.Context(), "invoices", types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{%q:%q}}`, field, value), metav1.PatchOptions{FieldManager: "kubectl"})
	require.NoError(p, err)
	return applies(o.GetGeneration())
}

// applies is the command that a generation of the XArchive leads to.
func applies(generation int64) string {
	return fmt.Sprintf("apply allowed=apply initiator=%s origin=XArchive.example.org/default/invoices@%d", story.Hans, generation)
}

// state returns what is in the state: owner, size and tier of the third resource.
func (p *player) state(uid types.UID) string {
	p.Helper()
	return p.run(uid, "state", "show", "-no-color", "terraform_data.third")
}

// run runs OpenTofu in the working directory of a Workspace, behind the back of everything.
func (p *player) run(uid types.UID, args ...string) string {
	p.Helper()
	cmd := exec.CommandContext(p.Context(), p.tofu, args...)
	cmd.Dir = filepath.Join(p.dir, string(uid))
	out, err := cmd.CombinedOutput()
	require.NoError(p, err, "%s", out)
	return string(out)
}

// kausality runs the plugin as hans.
func (p *player) kausality(args ...string) string {
	p.Helper()
	kubeconfig, err := p.e.Kubeconfig("plugin-hans", story.Hans, "platform-team")
	require.NoError(p, err)
	out, err := exec.CommandContext(p.Context(), p.plugin, append(args, "--kubeconfig="+kubeconfig)...).CombinedOutput()
	require.NoError(p, err, "%s", out)
	return string(out)
}

// approve annotates the XArchive, as hans.
func (p *player) approve(id string) {
	p.Helper()
	_, err := p.hans.Resource(archive.Resource()).Namespace(namespace).Patch(p.Context(), "invoices", types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{"%sapprove-%s":"once"}}}`, v1alpha1.AnnotationPrefix, id), metav1.PatchOptions{FieldManager: "kubectl"})
	require.NoError(p, err)
}

// drift waits for a Drift of the Workspace with a relation.
func (p *player) drift(relation v1alpha1.Relation) (d v1alpha1.Drift) {
	p.Helper()
	wait.For(p, "a Drift", wait.Patience, func(ctx context.Context) error {
		list, err := p.admin.Resource(story.Drifts).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, o := range list.Items {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
				return err
			}
			if d.Spec.Child.Kind == "Workspace" && d.Spec.Relation == relation && d.Status.Phase != v1alpha1.DriftResolved {
				return nil
			}
		}
		return fmt.Errorf("there are %d Drifts", len(list.Items))
	})
	return d
}
