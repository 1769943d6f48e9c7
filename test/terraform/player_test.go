package terraform

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

const namespace = "default"

// player of a Workspace, with what it runs on.
type player struct {
	*testing.T
	e           *story.Env
	tf          *story.Terraform
	admin, hans dynamic.Interface
	plugin      string
	// planning: runs report what plan would change.
	planning bool
}

func start(t *testing.T, planning bool) *player {
	t.Helper()
	ctx, e := story.StartTest(t, story.Options{Webhook: true, WithoutObjects: true})
	bins, err := parts.Ensure(ctx, os.Stderr, "", parts.KubectlKausality)
	require.NoError(t, err)
	p := &player{T: t, e: e, planning: planning, plugin: bins[parts.KubectlKausality]}
	p.admin, err = dynamic.NewForConfig(e.Config())
	require.NoError(t, err)
	p.hans, err = e.As(story.Hans)
	require.NoError(t, err)
	require.NoError(t, e.Grant(ctx, story.Hans, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}))
	p.tf, err = e.StartTerraform(ctx, planning)
	require.NoError(t, err)
	return p
}

// changes returns the commands of the provider that may change something.
func (p *player) changes() []string {
	p.Helper()
	out, err := p.tf.Changes()
	require.NoError(p, err)
	return out
}

func (p *player) with(t *testing.T) *player {
	q := *p
	q.T = t
	return &q
}

// workspace of the XArchive.
func (p *player) workspace(ctx context.Context) (*unstructured.Unstructured, error) {
	return p.tf.Workspace(ctx, "invoices")
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
	o, err := p.hans.Resource(story.Archive.Resource()).Namespace(namespace).Patch(p.Context(), "invoices", types.MergePatchType,
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

// run runs OpenTofu in the working directory of a Workspace.
func (p *player) run(uid types.UID, args ...string) string {
	p.Helper()
	out, err := p.tf.Run(p.Context(), uid, args...)
	require.NoError(p, err)
	return out
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
	_, err := p.hans.Resource(story.Archive.Resource()).Namespace(namespace).Patch(p.Context(), "invoices", types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{"%sapprove-%s":"once"}}}`, v1alpha1.AnnotationPrefix, id), metav1.PatchOptions{FieldManager: "kubectl"})
	require.NoError(p, err)
}

// drift waits for a Drift of the Workspace with a relation, whose difference has a text: while tofu applies, the state changes in steps.
func (p *player) drift(relation v1alpha1.Relation, shows string) (d v1alpha1.Drift) {
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
			if d.Spec.Child.Kind == "Workspace" && d.Spec.Relation == relation && d.Status.Phase != v1alpha1.DriftResolved &&
				strings.Contains(fmt.Sprint(d.Spec.Difference), shows) {
				return nil
			}
		}
		return fmt.Errorf("there are %d Drifts, the last one is %+v", len(list.Items), d.Spec)
	})
	return d
}
