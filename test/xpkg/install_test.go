package xpkg

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

const (
	repository = "kausality-io/function-kausality"
	tag        = "v0.0.1"
	function   = "function-kausality"
	patience   = 90 * time.Second
)

var (
	functions   = schema.GroupVersionResource{Group: "pkg.crossplane.io", Version: "v1", Resource: "functions"}
	revisions   = schema.GroupVersionResource{Group: "pkg.crossplane.io", Version: "v1", Resource: "functionrevisions"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// TestInstall pushes the package to a registry, installs it, and follows it up to
// the Deployment that a kubelet would run (KR-12-01).
func TestInstall(t *testing.T) {
	root, err := parts.Root()
	if err != nil {
		t.Fatal(err)
	}
	registry := serve(t)
	push(t, registry, build(t, root, runtime.GOARCH))

	c, err := controlplane.Start(t.Context(), controlplane.Options{
		Out: os.Stdout, Crossplane: true, CrossplaneArgs: []string{
			"--package-runtime=Function=Deployment;Provider=External",
			"--xpkg-cache-dir=" + t.TempDir(), // must exist
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), fmt.Appendf(nil, `
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata: {name: %s}
spec:
  package: "%s/%s:%s"
  packagePullPolicy: IfNotPresent
  ignoreCrossplaneConstraints: true # the core here knows no version of its own
`, function, registry, repository, tag)); err != nil {
		t.Fatal(err)
	}

	revision := await(t, "the package to be unpacked into an active revision", func(ctx context.Context) (*unstructured.Unstructured, error) {
		return active(ctx, client)
	})
	if got, _, _ := unstructured.NestedStringSlice(revision.Object, "status", "capabilities"); !slices.Equal(got, []string{"composition", "operation"}) {
		t.Errorf("capabilities of the revision: %v", got)
	}
	await(t, "the Function to be installed", func(ctx context.Context) (*unstructured.Unstructured, error) {
		return withCondition(ctx, client.Resource(functions), function, "Installed", "True")
	})
	deployment := await(t, "the Deployment of its image", func(ctx context.Context) (*unstructured.Unstructured, error) {
		d, err := client.Resource(deployments).Namespace("crossplane-system").Get(ctx, revision.GetName(), metav1.GetOptions{})
		if kerrors.IsNotFound(err) {
			r, rerr := client.Resource(revisions).Get(ctx, revision.GetName(), metav1.GetOptions{})
			if rerr == nil {
				err = fmt.Errorf("%w; the revision's status is %v", err, r.Object["status"])
			}
		}
		return d, err
	})
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	image, _ := containers[0].(map[string]any)["image"].(string)
	if want := registry + "/" + repository; !strings.HasPrefix(image, want) {
		t.Errorf("the Deployment runs %s, want something of %s", image, want)
	}
	// Here it ends: nothing runs Pods.
	await(t, "the revision to wait for its runtime alone", func(ctx context.Context) (*unstructured.Unstructured, error) {
		if _, err := withCondition(ctx, client.Resource(revisions), revision.GetName(), "RevisionHealthy", "True"); err != nil {
			return nil, err
		}
		return withCondition(ctx, client.Resource(revisions), revision.GetName(), "RuntimeHealthy", "False")
	})
}

// TestArchitectures pushes the packages for all architectures to a registry as one image (KR-12-01).
func TestArchitectures(t *testing.T) {
	root, err := parts.Root()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"amd64", "arm64"}
	registry := serve(t)
	push(t, registry, build(t, root, want...))
	if got := architectures(t, registry); !slices.Equal(got, want) {
		t.Fatalf("the registry has the package for %v, want %v", got, want)
	}
}

// build the packages for some architectures as make package does.
func build(t *testing.T, root string, arches ...string) (files []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-C", root, "package", "ARCHES="+strings.Join(arches, " "), "VERSION="+tag)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make package: %v\n%s", err, out)
	}
	for _, arch := range arches {
		files = append(files, filepath.Join(root, "_output", "function-kausality-"+arch+".xpkg"))
	}
	return files
}

// serve a registry and return its host and port.
func serve(t *testing.T) string {
	t.Helper()
	bins, err := parts.Ensure(t.Context(), os.Stdout, "", parts.Image)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bins["image"], "registry", "--address=127.0.0.1:0") // ended by the clean-up
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
}

// push all architectures as one image.
func push(t *testing.T, registry string, packages []string) {
	t.Helper()
	cli, err := parts.Ensure(t.Context(), os.Stdout, "", parts.CrossplaneCLI)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), cli[parts.CrossplaneCLI], "xpkg", "push",
		"--package-files="+strings.Join(packages, ","), registry+"/"+repository+":"+tag)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("crossplane xpkg push: %v\n%s", err, out)
	}
}

// architectures that the registry has the package for, sorted.
func architectures(t *testing.T, registry string) []string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/v2/%s/manifests/%s", registry, repository, tag), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	index := struct {
		Manifests []struct {
			Platform struct {
				Architecture string `json:"architecture"`
			} `json:"platform"`
		} `json:"manifests"`
	}{}
	if err := json.NewDecoder(resp.Body).Decode(&index); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range index.Manifests {
		out = append(out, m.Platform.Architecture)
	}
	slices.Sort(out)
	return out
}

func await(t *testing.T, what string, f func(context.Context) (*unstructured.Unstructured, error)) *unstructured.Unstructured {
	t.Helper()
	var out *unstructured.Unstructured
	wait.For(t, what, patience, func(ctx context.Context) (err error) {
		out, err = f(ctx)
		return err
	})
	return out
}

// active revision of the function.
func active(ctx context.Context, client dynamic.Interface) (*unstructured.Unstructured, error) {
	list, err := client.Resource(revisions).List(ctx, metav1.ListOptions{LabelSelector: "pkg.crossplane.io/package=" + function})
	if err != nil {
		return nil, err
	}
	if len(list.Items) != 1 {
		f, err := client.Resource(functions).Get(ctx, function, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%d revisions; the Function's status is %v", len(list.Items), f.Object["status"])
	}
	r := &list.Items[0]
	if state, _, _ := unstructured.NestedString(r.Object, "spec", "desiredState"); state != "Active" {
		return nil, fmt.Errorf("the revision is %q", state)
	}
	if _, has, _ := unstructured.NestedStringSlice(r.Object, "status", "capabilities"); !has {
		return nil, fmt.Errorf("its status is %v", r.Object["status"])
	}
	return r, nil
}

// withCondition returns an object once a condition of it has a status.
func withCondition(ctx context.Context, client dynamic.ResourceInterface, name, kind, status string) (*unstructured.Unstructured, error) {
	o, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, e := range list {
		if c, _ := e.(map[string]any); c["type"] == kind && c["status"] == status {
			return o, nil
		}
	}
	return nil, fmt.Errorf("its conditions are %v", list)
}
