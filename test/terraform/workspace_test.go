package terraform

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// step in the life of a Workspace.
type step struct {
	name string
	play func(*player)
}

func (p *player) play(steps ...step) {
	for _, of := range steps {
		if !p.Run(of.name, func(t *testing.T) { of.play(p.with(t)) }) {
			return
		}
	}
}

// TestWorkspaces plays the life of a Workspace on the real Crossplane with the real OpenTofu: its external drift is what its outputs show (KR-08-62,
// KR-08-63).
func TestWorkspaces(t *testing.T) {
	t.Parallel()
	start(t, false).play(step{"Created", (*player).created}, step{"Changed", (*player).changed}, step{"RevisionHeld", (*player).revision},
		step{"BehindOurBack", (*player).behind})
}

// TestWorkspacesWithPlans: its external drift is what its plan has (KR-08-66, KR-08-67), and what goes wrong.
func TestWorkspacesWithPlans(t *testing.T) {
	start(t, true).play(step{"Created", (*player).created}, step{"Changed", (*player).changed}, step{"RevisionHeld", (*player).revision},
		step{"BehindOurBack", (*player).behind}, step{"HalfWay", (*player).halfWay}, step{"StateLost", (*player).stateLost},
		step{"Replaced", (*player).replaced}, step{"Destroyed", (*player).destroyed}, step{"Direct", (*player).direct})
}

func (p *player) created() {
	require.NoError(p, p.e.CreateArchive(p.Context(), "invoices"))
	mr := p.closed("20")
	require.Equal(p, []string{applies(1)}, p.changes())
	require.Contains(p, p.state(mr.GetUID()), `size  = "20"`)
	explained := p.kausality("explain", "workspace.opentofu.m.upbound.io/"+mr.GetName(), "-n", namespace)
	if unknown := "external drift unknown: the provider reports outputs or a checksum alone"; p.planning {
		require.NotContains(p, explained, "external drift unknown")
	} else {
		require.Contains(p, explained, unknown)
	}
}

func (p *player) changed() {
	n := len(p.changes())
	run := p.set("size", "30")
	p.closed("30")
	require.Equal(p, []string{run}, p.changes()[n:])
}

// settled waits until the XArchive has settled at its last intent.
func (p *player) settled() {
	p.Helper()
	wait.For(p, "the XArchive to settle", wait.Patience, func(ctx context.Context) error {
		o, err := p.admin.Resource(story.Archive.Resource()).Namespace(namespace).Get(ctx, "invoices", metav1.GetOptions{})
		if err != nil {
			return err
		}
		hops, err := story.Trace(o)
		if err != nil {
			return err
		}
		if got := o.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration]; got != fmt.Sprint(hops[len(hops)-1].Generation) {
			return fmt.Errorf("settled at %q, trace %s, status %v", got, story.Tree(hops), o.Object["status"])
		}
		return nil
	})
}

func (p *player) revision() {
	p.settled()
	n := len(p.changes())
	require.NoError(p, p.e.ComposeArchive(p.Context(), "gold"))
	p.drift(v1alpha1.RelationControllerChild, "spec.forProvider.module")
	wait.Pause(p, 1500*time.Millisecond) // a plan and more
	mr := p.closed("30")
	require.Empty(p, p.changes()[n:])
	require.Contains(p, p.state(mr.GetUID()), "bronze")
	require.NoError(p, p.e.ComposeArchive(p.Context(), "bronze"))
}

func (p *player) behind() {
	mr := p.closed("30")
	n := len(p.changes())
	p.run(mr.GetUID(), "apply", "-auto-approve", "-input=false", "-var=size=99", "-var=owner=books", "-var=region=us")
	shows := "status.atProvider.outputs.size Mutate"
	if p.planning {
		shows = `plan[terraform_data.third] Mutate "unchanged" "update"`
	}
	p.drift(v1alpha1.RelationExternal, shows)
	p.set("owner", "sales")
	wait.For(p, "the change to be held", wait.Patience, func(ctx context.Context) error {
		mr, err := p.workspace(ctx)
		if err != nil {
			return err
		}
		if gate := mask.ParseGate(mr.GetAnnotations()); gate.Reason != v1alpha1.GateReasonPending {
			return fmt.Errorf("the gate is %+v", gate)
		}
		return nil
	})
	require.Empty(p, p.changes()[n:])
	require.Contains(p, p.state(mr.GetUID()), `"99"`)
	p.kausality("approve", "workspace.opentofu.m.upbound.io/"+mr.GetName(), "--any", "--external=apply", "-n", namespace)
	p.closed("30")
	require.Len(p, p.changes()[n:], 1)
	require.Contains(p, p.changes()[n], "apply allowed=apply")
	require.Contains(p, p.state(mr.GetUID()), "sales")
}

func (p *player) halfWay() {
	mr := p.closed("30")
	n := len(p.changes())
	quota := filepath.Join(p.tf.Dir, string(mr.GetUID()), "quota")
	require.NoError(p, os.WriteFile(quota, []byte("35"), 0o600))
	run := p.set("size", "40")
	p.refused("")
	require.Contains(p, p.run(mr.GetUID(), "state", "show", "-no-color", "terraform_data.first"), `"40"`)
	require.Contains(p, p.state(mr.GetUID()), `"30"`)
	require.NoError(p, os.Remove(quota))
	p.closed("40")
	for _, c := range p.changes()[n:] {
		require.Equal(p, run, c)
	}
}

func (p *player) stateLost() {
	mr := p.closed("40")
	n := len(p.changes())
	require.NoError(p, os.RemoveAll(filepath.Join(p.tf.Dir, string(mr.GetUID()), "terraform.tfstate.d")))
	d := p.drift(v1alpha1.RelationExternal, "exists Mutate")
	wait.Pause(p, 3*time.Second)
	require.Empty(p, p.changes()[n:])
	p.approve(d.Spec.ID)
	p.closed("40")
	require.Len(p, p.changes()[n:], 1)
}

// replaced: what a run destroys needs an approval of its own, which is not one of the deletion.
func (p *player) replaced() {
	mr := p.closed("40")
	n := len(p.changes())
	p.set("region", "eu")
	p.refused("replace terraform_data.bucket, no allowance permits Delete (destroy)")
	bucket := []string{"state", "show", "-no-color", "terraform_data.bucket"}
	require.Contains(p, p.run(mr.GetUID(), bucket...), `"us"`)
	p.kausality("approve", "workspace.opentofu.m.upbound.io/"+mr.GetName(), "--any", "--external=apply,destroy", "-n", namespace)
	p.closed("40")
	require.Contains(p, p.changes()[len(p.changes())-1], "apply allowed=apply,destroy")
	require.Contains(p, p.run(mr.GetUID(), bucket...), `"eu"`)
	require.Greater(p, len(p.changes()), n+1)
	require.ErrorContains(p, p.deleteArchive(), "ExternalDeletionNotAllowed")
}

// refused waits until the provider reports that an apply failed with a text.
func (p *player) refused(text string) {
	p.Helper()
	wait.For(p, "the apply to fail", wait.Patience, func(ctx context.Context) error {
		mr, err := p.workspace(ctx)
		if err != nil {
			return err
		}
		if status := fmt.Sprint(mr.Object["status"]); !strings.Contains(status, "cannot apply Terraform configuration") || !strings.Contains(status, text) {
			return fmt.Errorf("the status is %s", status)
		}
		return nil
	})
}

func (p *player) deleteArchive() error {
	return p.hans.Resource(story.Archive.Resource()).Namespace(namespace).Delete(p.Context(), "invoices", metav1.DeleteOptions{})
}

func (p *player) destroyed() {
	mr := p.closed("40")
	n := len(p.changes())
	require.ErrorContains(p, p.deleteArchive(), "ExternalDeletionNotAllowed")
	name := "workspace.opentofu.m.upbound.io/" + mr.GetName()
	p.kausality("approve", name, "--any", "--external=apply", "--mode=generation", "-n", namespace)
	require.ErrorContains(p, p.deleteArchive(), "ExternalDeletionNotAllowed")
	p.kausality("approve", name, "--any", "--external=destroy", "-n", namespace)
	wait.For(p, "the deletion to be allowed", wait.Patience, func(context.Context) error { return p.deleteArchive() })
	wait.For(p, "the Workspace to be gone", wait.Patience, func(ctx context.Context) error {
		o, err := p.admin.Resource(story.Workspaces).Namespace(namespace).Get(ctx, mr.GetName(), metav1.GetOptions{})
		if kerrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it exists: %v %w", o, err)
	})
	require.Regexp(p, "^destroy allowed=destroy ", strings.Join(p.changes()[n:], "\n"))
}

// direct: a user's own Workspace of provider-terraform, without a namespace: its author's variables stay as they are.
func (p *player) direct() {
	workspaces := schema.GroupVersionResource{Group: "tf.upbound.io", Version: "v1beta1", Resource: "workspaces"}
	require.NoError(p, p.e.Apply(p.Context(), []byte("{apiVersion: v1, kind: Secret, metadata: {name: net, namespace: default}, stringData: {zone: eu-1}}")))
	module := func(size string) string {
		return `variable "zone" { type = string }
variable "kausality_initiator" { type = string }
resource "terraform_data" "net" { input = "` + size + `" }
output "net" { value = "${terraform_data.net.output} in ${var.zone} for ${var.kausality_initiator}" }`
	}
	mine := map[string]any{"name": "TF_VAR_zone", "secretKeyRef": map[string]any{"name": "net", "namespace": "default", "key": "zone"}}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": workspaces.GroupVersion().String(), "kind": "Workspace",
		"metadata": map[string]any{"name": "net"}, "spec": map[string]any{"forProvider": map[string]any{"source": "Inline",
			"module": module("small"), "env": []any{mine}}}}}
	o, err := p.hans.Resource(workspaces).Create(p.Context(), o, metav1.CreateOptions{FieldManager: "kubectl"})
	require.NoError(p, err)
	for _, size := range []string{"small", "large"} {
		n := len(p.changes())
		if size == "large" {
			patch, err := json.Marshal(map[string]any{"spec": map[string]any{"forProvider": map[string]any{"module": module(size)}}})
			require.NoError(p, err)
			o, err = p.hans.Resource(workspaces).Patch(p.Context(), "net", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl"})
			require.NoError(p, err)
		}
		origin := fmt.Sprintf("origin=Workspace.tf.upbound.io/net@%d", o.GetGeneration())
		wait.For(p, size+" to be applied, and the gate to be closed", wait.Patience, func(ctx context.Context) (err error) {
			if o, err = p.admin.Resource(workspaces).Get(ctx, "net", metav1.GetOptions{}); err != nil {
				return err
			}
			got, _, _ := unstructured.NestedString(o.Object, "status", "atProvider", "outputs", "net")
			gate := mask.ParseGate(o.GetAnnotations())
			if got != size+" in eu-1 for "+story.Hans || gate.State != v1alpha1.GateClosed {
				return fmt.Errorf("the gate is %+v, the output %q, the status %v", gate, got, o.Object["status"])
			}
			return nil
		})
		if size == "large" {
			require.Len(p, p.changes()[n:], 1)
			require.Contains(p, p.changes()[n], origin)
		}
		env, _, err := unstructured.NestedSlice(o.Object, "spec", "forProvider", "env")
		require.NoError(p, err)
		require.Equal(p, mine, env[0])
	}
}
