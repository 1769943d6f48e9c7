package documented

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

// What the pages about the function, Terraform and policies need to be typed.

var targets = regexp.MustCompile(`(runtime-development-target: localhost:)(\d+)`)

// cloned repository, as far as the tutorial uses it: the examples, whose functions
// listen on other ports, and the programs.
func cloned(t *testing.T, d *shell) {
	t.Helper()
	d.at = filepath.Join(d.dir, "clone")
	require.NoError(t, os.CopyFS(filepath.Join(d.at, "examples"), os.DirFS(filepath.Join(the.Root, "examples"))))
	files, err := filepath.Glob(filepath.Join(d.at, "examples", "*", "functions.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		raw = targets.ReplaceAllFunc(raw, func(m []byte) []byte {
			parts := targets.FindSubmatch(m)
			return append(parts[1], d.ports["PORT"+string(parts[2])]...)
		})
		require.NoError(t, os.WriteFile(file, raw, 0o600))
	}
	built, err := parts.Ensure(t.Context(), os.Stderr, "", parts.CrossplaneCLI, parts.PatchAndTransform)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(d.at, "bin"), 0o750))
	for _, file := range built {
		require.NoError(t, os.Symlink(file, filepath.Join(d.at, "bin", filepath.Base(file))))
	}
}

var address = regexp.MustCompile(`--address=(\S+)`)

// background process, from when it listens to the end of the test.
func (d *shell) background(t *testing.T, line string) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command("sh", "-c", "exec "+line) // ended by the clean-up
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = d.at, d.env(), &log, &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("%s: %v:\n%s", line, err, log.String())
		}
	})
	m := address.FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("%s: it does not print its address", line)
	}
	wait.For(t, line+" to listen", wait.Patience, func(ctx context.Context) error {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", m[1])
		if err != nil {
			return err
		}
		return c.Close()
	})
}

var suggested = regexp.MustCompile(`kausality\.io/(approve-[0-9a-f]{16})=once`)

// approvedInFile: with the annotation that was suggested in xr.yaml, rendering
// again holds nothing, and archive is gold.
func approvedInFile(t *testing.T, d *shell, out string) {
	t.Helper()
	m := suggested.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("nothing is suggested in:\n%s", out)
	}
	file := filepath.Join(d.at, "xr.yaml")
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	with := strings.Replace(string(raw), "  annotations:\n", "  annotations:\n    kausality.io/"+m[1]+": once\n", 1)
	require.NoError(t, os.WriteFile(file, []byte(with), 0o600))
	d.types(t, typed{
		command: "../../bin/crossplane-cli-v2.2.0 render xr.yaml composition.yaml functions.yaml --observed-resources=observed.yaml --include-full-xr",
		prints:  "tier: gold", reads: func(t *testing.T, _ *shell, out string) {
			if strings.Contains(out, "reason: Held") || strings.Contains(out, "kausality.io/held") {
				t.Errorf("it is approved, and held:\n%s", out)
			}
		},
	})
}

var workspaces = schema.GroupVersionResource{Group: "opentofu.m.upbound.io", Version: "v1beta1", Resource: "workspaces"}

// workspace of provider-opentofu whose changes are allowed, deletions are not.
func workspace(t *testing.T) {
	t.Helper()
	require.NoError(t, the.Define(t.Context(), controlplane.Kind{Group: workspaces.Group, Version: workspaces.Version, Kind: "Workspace",
		Categories: []string{"managed"}, Spec: controlplane.ManagedSpec}))
	o := site.Object("opentofu.m.upbound.io/v1beta1", "Workspace", "default", "orders", map[string]any{"forProvider": map[string]any{"source": "Inline",
		"module": ""}})
	o.SetAnnotations(map[string]string{v1alpha1.AnnotationKeyAllowances: `[{"relation":"External","verbs":["apply"],"initiator":"hans@example.com"}]`})
	wait.For(t, "a Workspace", wait.Patience, func(ctx context.Context) error {
		_, err := the.As(t, site.Hans).Resource(workspaces).Namespace("default").Create(ctx, o, metav1.CreateOptions{})
		return err
	})
}

// approved: the Workspace has the approval that was typed.
func approved(t *testing.T) {
	t.Helper()
	hasApproval(t, `"verbs":["apply"]`)
}

// approvedRun: and that of a run that may destroy.
func approvedRun(t *testing.T) {
	t.Helper()
	hasApproval(t, `"verbs":["apply","destroy"]`)
}

func hasApproval(t *testing.T, verbs string) {
	t.Helper()
	o, err := the.Admin.Resource(workspaces).Namespace("default").Get(t.Context(), "orders", metav1.GetOptions{})
	require.NoError(t, err)
	if a := o.GetAnnotations()[v1alpha1.AnnotationKeyApprovals]; !strings.Contains(a, verbs) || !strings.Contains(a, `"relation":"External"`) {
		t.Errorf("its approvals are %s", a)
	}
}

// crossplaneSystem exists.
func crossplaneSystem(t *testing.T) {
	t.Helper()
	_, err := the.Admin.Resource(site.Namespaces).Create(t.Context(), site.Object("v1", "Namespace", "", "crossplane-system", nil), metav1.CreateOptions{})
	if err != nil && !kerrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// keyCopied: the key of the function is that of the webhook.
func keyCopied(t *testing.T) {
	t.Helper()
	secrets := the.Admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
	t.Cleanup(func() {
		_ = secrets.Namespace("crossplane-system").Delete(context.Background(), "kausality-claims-key", metav1.DeleteOptions{})
	})
	var keys []string
	for _, ns := range []string{"kausality-system", "crossplane-system"} {
		s, err := secrets.Namespace(ns).Get(t.Context(), "kausality-claims-key", metav1.GetOptions{})
		require.NoError(t, err)
		key, _, _ := unstructured.NestedString(s.Object, "data", "key")
		keys = append(keys, key)
	}
	require.NotEmpty(t, keys[0])
	require.Equal(t, keys[0], keys[1])
}

// planned is a recorded plan.
func planned(name string) func(*testing.T, *shell) {
	return func(t *testing.T, d *shell) {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(the.Root, "gate", "systems", "testdata", "plans", name+".json"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(d.dir, "plan.json"), raw, 0o600))
	}
}

// learned: an XDatabase that had settled is made larger, and its controller makes
// its bucket larger for it. The API server writes that to its audit log.
func learned(t *testing.T) {
	t.Helper()
	defined(t, "Bucket", site.LearnedGroup, "v1")
	ns, controller := the.Namespace(t, "learned"), the.As(t, "system:serviceaccount:shop:controller")
	n := 0
	var up metav1.Object
	wait.For(t, "an XDatabase with a trace", wait.Patience, func(ctx context.Context) error {
		n++
		o, err := the.As(t, site.Hans).Resource(xdatabases).Namespace(ns).Create(ctx, site.Object("example.org/v1", "XDatabase", ns,
			fmt.Sprintf("learned-%d", n), map[string]any{"size": int64(1)}), metav1.CreateOptions{})
		if err == nil && o.GetAnnotations()[v1alpha1.AnnotationKeyTrace] == "" {
			err = fmt.Errorf("%s has no trace", o.GetName())
		}
		up = o
		return err
	})
	yes, name := true, up.GetName()
	child := site.Object("example.org/v1", "Bucket", ns, name, map[string]any{"size": int64(1)})
	child.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: "XDatabase", Name: name, UID: up.GetUID(), Controller: &yes}})
	wait.For(t, "a bucket with a trace", wait.Patience, func(ctx context.Context) error {
		child.SetName(fmt.Sprintf("%s-%d", name, n))
		n++
		o, err := controller.Resource(buckets).Namespace(ns).Create(ctx, child, metav1.CreateOptions{})
		if err == nil && !strings.Contains(o.GetAnnotations()[v1alpha1.AnnotationKeyTrace], site.Hans) {
			err = fmt.Errorf("its trace is %s", o.GetAnnotations()[v1alpha1.AnnotationKeyTrace])
		}
		return err
	})
	settles(t, ns, name)
	require.NoError(t, site.Merge(t, the.As(t, site.Hans), xdatabases, ns, name, map[string]any{"spec": map[string]any{"size": int64(2)}}))
	require.NoError(t, site.Merge(t, controller, buckets, ns, child.GetName(), map[string]any{"spec": map[string]any{"size": int64(2)}}))
}

// settles an XDatabase: its controller is ready with it.
func settles(t *testing.T, ns, name string) {
	t.Helper()
	c := the.As(t, "system:serviceaccount:shop:controller").Resource(xdatabases).Namespace(ns)
	wait.For(t, name+" to settle", wait.Patience, func(ctx context.Context) error {
		o, err := c.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		o.Object["status"] = map[string]any{"observedGeneration": o.GetGeneration(), "seen": time.Now().UTC().Format(time.RFC3339Nano), "conditions": []any{
			map[string]any{"type": "Ready", "status": "True", "reason": "Ok", "observedGeneration": o.GetGeneration(), "lastTransitionTime": "2026-01-05T09:30:00Z"},
		}}
		if o, err = c.UpdateStatus(ctx, o, metav1.UpdateOptions{}); err == nil && o.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration] == "" {
			err = fmt.Errorf("its annotations are %v", o.GetAnnotations())
		}
		return err
	})
}

// audited is the API server's log, up to what was learned.
func audited(t *testing.T, d *shell) {
	t.Helper()
	wait.For(t, "the log to have the bucket", wait.Patience, func(context.Context) error {
		raw, err := os.ReadFile(the.AuditLog())
		if err != nil {
			return err
		}
		if !regexp.MustCompile(`"verb":"patch"[^\n]*"resource":"buckets"`).Match(raw) {
			return fmt.Errorf("it has not in %d bytes", len(raw))
		}
		return os.WriteFile(filepath.Join(d.dir, "audit.log"), raw, 0o600)
	})
}

// derived policy: what was seen, and that a log without it would refuse.
func derived(t *testing.T, d *shell, _ string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.dir, "policies.yaml"))
	require.NoError(t, err)
	for _, want := range []string{"kind: AllowancePolicy", "trigger: spec.size", "jsonPath: spec.size", "kind: Bucket", "name: " + site.Hans} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%s is not in what was derived:\n%s", want, raw)
		}
	}
	other := strings.ReplaceAll(string(raw), "trigger: spec.size", "trigger: spec.engine")
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "other.yaml"), []byte(other), 0o600))
	d.types(t, typed{command: "kausality policy test other.yaml --events=audit.log", code: 1, prints: "AllowanceMissing"})
}
