package story

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// Workspaces of provider-opentofu.
var Workspaces = schema.GroupVersionResource{Group: "opentofu.m.upbound.io", Version: "v1beta1", Resource: "workspaces"}

// Archive is a composite that a Workspace implements.
var Archive = Definition{
	Group: "example.org", Version: "v1alpha1", Kind: "XArchive", Plural: "xarchives",
	Spec: "{size: {type: string}, owner: {type: string}, region: {type: string}}",
}

// archives guards XArchives and Workspaces, and has the cause of a change reach the runs.
const archives = `
apiVersion: kausality.io/v1alpha1
kind: Kausality
metadata: {name: archives}
spec:
  mode: enforce
  resources:
  - {apiGroups: [example.org], resources: [xarchives]}
  - {apiGroups: [opentofu.m.upbound.io, tf.upbound.io], resources: [workspaces]}
  external: {provenance: [TerraformEnv]}
`

// archiveModule is the module of the Workspace. The third resource is changed after the second, whose postcondition fails where the size is more than
// a quota.
const archiveModule = `
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

// ComposeArchive installs a revision of the Composition of XArchives.
func (e *Env) ComposeArchive(ctx context.Context, tier string) error {
	steps := []string{StepAutoReady}
	if e.Options.Function {
		steps = []string{StepKausality, StepAutoReady}
	}
	return e.Apply(ctx, Archive.Composition("xarchives.example.org", `
      - name: retention
        base:
          apiVersion: opentofu.m.upbound.io/v1beta1
          kind: Workspace
          spec:
            forProvider:
              source: Inline
              module: |`+strings.ReplaceAll(archiveModule, "TIER", tier)+`
              vars: [{key: size, value: ""}, {key: owner, value: ""}, {key: region, value: ""}]
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.size, toFieldPath: "spec.forProvider.vars[0].value"}
        - {type: FromCompositeFieldPath, fromFieldPath: spec.owner, toFieldPath: "spec.forProvider.vars[1].value"}
        - {type: FromCompositeFieldPath, fromFieldPath: spec.region, toFieldPath: "spec.forProvider.vars[2].value"}`, steps...))
}

// CreateArchive creates an XArchive of size 20, as hans.
func (e *Env) CreateArchive(ctx context.Context, name string) error {
	c, err := e.As(Hans)
	if err != nil {
		return err
	}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": Archive.Group + "/" + Archive.Version, "kind": Archive.Kind,
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"size": "20", "owner": "books", "region": "us"}}}
	return until(ctx, "the XArchive to be created", func(ctx context.Context) error { // its kind may not be served yet
		_, err := c.Resource(Archive.Resource()).Namespace(namespace).Create(ctx, o, createOptions)
		return err
	})
}

// Terraform is a provider of Workspaces that runs OpenTofu.
type Terraform struct {
	// Tofu is the program.
	Tofu string
	// Dir has the working directories, by the UID of the Workspace.
	Dir string

	e *Env
}

// StartTerraform offers XArchives and runs the provider, with Kausality's wrapper in the place of the program as docs/external.md has it. planning: its
// runs report what plan would change.
func (e *Env) StartTerraform(ctx context.Context, planning bool) (*Terraform, error) {
	bins, err := parts.Ensure(ctx, e.Options.Out, "", parts.Tofu)
	if err != nil {
		return nil, err
	}
	t := &Terraform{Tofu: bins[parts.Tofu], Dir: filepath.Join(e.Dir(), "tf"), e: e}
	for _, before := range []string{t.Dir, t.commands()} { // of a story that was played in this directory before
		if err := os.RemoveAll(before); err != nil {
			return nil, err
		}
	}
	root, err := parts.Root()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"opentofu.m.upbound.io_workspaces.yaml", "tf.upbound.io_workspaces.yaml"} {
		crd, err := os.ReadFile(filepath.Join(root, "test", "provider", "crds", name))
		if err != nil {
			return nil, err
		}
		if err := e.Apply(ctx, crd); err != nil {
			return nil, err
		}
	}
	if err := t.serve(ctx, planning); err != nil {
		return nil, err
	}
	if err := e.Apply(ctx, []byte(archives)); err != nil {
		return nil, err
	}
	if err := e.Apply(ctx, Archive.XRD()); err != nil {
		return nil, err
	}
	return t, until(ctx, "the Composition to be applied", func(ctx context.Context) error { return e.ComposeArchive(ctx, "bronze") })
}

// serve runs the provider. The program in the place of tofu also notes its commands.
func (t *Terraform) serve(ctx context.Context, planning bool) error {
	program := filepath.Join(t.e.Dir(), "tofu")
	script := fmt.Sprintf("#!/bin/sh\necho \"$1 allowed=$KAUSALITY_ALLOWED initiator=$KAUSALITY_INITIATOR origin=$KAUSALITY_ORIGIN\" >>%s\n"+
		"exec %s terraform exec -- %s \"$@\"\n", t.commands(), t.e.Bins[parts.Kausality], t.Tofu)
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil { //nolint:gosec // A program.
		return err
	}
	kubeconfig, err := t.e.ServiceAccountKubeconfig(ctx, "crossplane-system", "provider-opentofu")
	if err != nil {
		return err
	}
	cmd := exec.Command(t.e.Bins[parts.TestProvider], "terraform", "--kubeconfig="+kubeconfig, "--program="+program, "--dir="+t.Dir,
		"--poll-interval=1s", "--max-requeue-delay=2s", "--creation-grace-period=0s")
	cmd.Args[0] = "provider"
	cmd.Env = append(os.Environ(), fmt.Sprintf("KAUSALITY_PLANNING=%t", planning), "TMPDIR="+t.e.Dir(), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1",
		"TF_CLI_CONFIG_FILE="+os.DevNull)
	_, err = t.e.Serve(ctx, "provider-opentofu", cmd)
	return err
}

func (t *Terraform) commands() string { return filepath.Join(t.e.Dir(), "tofu-commands") }

// Changes returns the commands of the provider that may change something, each with what it finds in its environment.
func (t *Terraform) Changes() (out []string, err error) {
	raw, err := os.ReadFile(t.commands())
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "apply ") || strings.HasPrefix(line, "destroy ") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out, nil
}

// Run runs OpenTofu in the working directory of a Workspace, behind the back of everything.
func (t *Terraform) Run(ctx context.Context, uid types.UID, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, t.Tofu, args...)
	cmd.Dir = filepath.Join(t.Dir, string(uid))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("tofu %v: %w: %s", args, err, out)
	}
	return string(out), nil
}

// Workspace returns the one of an XArchive.
func (t *Terraform) Workspace(ctx context.Context, archive string) (*unstructured.Unstructured, error) {
	list, err := t.e.admin.Resource(Workspaces).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: "crossplane.io/composite=" + archive})
	if err != nil {
		return nil, err
	}
	if len(list.Items) != 1 {
		return nil, fmt.Errorf("there are %d Workspaces", len(list.Items))
	}
	return &list.Items[0], nil
}

// ran is the chapter about a run of OpenTofu.
func ran(ctx context.Context, e *Env, t *Teller) error {
	tf, err := e.StartTerraform(ctx, true)
	if err != nil {
		return err
	}
	const name = "invoices"
	t.Types(Hans, "kubectl apply -f xarchive.yaml   # composes a Workspace of OpenTofu")
	if err := e.CreateArchive(ctx, name); err != nil {
		return err
	}
	mr, err := tf.shows(ctx, name, "20", 1)
	if err != nil {
		return err
	}
	runs, err := tf.Changes()
	if err != nil {
		return err
	}
	t.Reports("tofu %s", runs[0])
	if want := fmt.Sprintf("apply allowed=apply initiator=%s origin=XArchive.example.org/%s/%s@1", Hans, namespace, name); runs[0] != want {
		return fmt.Errorf("the run is %s", runs[0])
	}
	t.Right("tofu ran once, and its environment has who caused it, and what it may do")
	t.Types("", "tofu apply -auto-approve -var=size=99   # behind Crossplane's back")
	args := []string{"apply", "-auto-approve", "-input=false", "-no-color", "-var=size=99", "-var=owner=books", "-var=region=us"}
	if _, err := tf.Run(ctx, mr.GetUID(), args...); err != nil {
		return err
	}
	if _, err := tf.shows(ctx, name, "99", 1); err != nil {
		return err
	}
	d, err := e.awaitDrift(ctx, "External", "Workspace", "")
	if err != nil {
		return err
	}
	t.Reports("%s", driftLines(d))
	t.Right("what the next plan would change is reported, and nothing applies it")
	t.Types(Hans, text(d, "spec", "suggestedApproval"))
	if err := e.Annotate(ctx, Hans, Archive.Resource(), name, v1alpha1.AnnotationKeyApprovePrefix+text(d, "spec", "id"), "once"); err != nil {
		return err
	}
	if _, err := tf.shows(ctx, name, "20", 2); err != nil {
		return err
	}
	t.Right("approved, tofu ran once more, and the gate is closed")
	return nil
}

// shows waits until the gate of a Workspace is closed, its provider reports a size, and tofu ran so often.
func (t *Terraform) shows(ctx context.Context, archive, size string, runs int) (mr *unstructured.Unstructured, err error) {
	err = until(ctx, "the Workspace to have size "+size, func(ctx context.Context) (err error) {
		if mr, err = t.Workspace(ctx, archive); err != nil {
			return err
		}
		if err := closed(mr); err != nil {
			return err
		}
		if got := text(mr, "status", "atProvider", "outputs", "size"); got != size || SyncedGeneration(mr) < mr.GetGeneration() {
			return fmt.Errorf("its size is %q, its status %v", got, mr.Object["status"])
		}
		done, err := t.Changes()
		if err == nil && len(done) != runs {
			err = fmt.Errorf("tofu ran %d times: %v", len(done), done)
		}
		return err
	})
	return mr, err
}
