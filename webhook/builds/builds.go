package builds

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/lru"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
)

// What the API server adds to users with a token that is bound to a Pod.
const (
	extraPodName = "authentication.kubernetes.io/pod-name"
	extraPodUID  = "authentication.kubernetes.io/pod-uid"
)

var (
	podResource         = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	compositionRevision = schema.GroupVersionResource{Group: "apiextensions.crossplane.io", Version: "v1", Resource: "compositionrevisions"}
	functionRevision    = schema.GroupVersionResource{Group: "pkg.crossplane.io", Version: "v1", Resource: "functionrevisions"}
)

const (
	// maxBuilds bounds what is remembered of pods, and of composition revisions.
	maxBuilds = 2048
	// buildTimeout bounds one question to the API server.
	buildTimeout = time.Second
	// functionsFor is how long the active revisions of functions hold.
	functionsFor = 10 * time.Second
)

// builds tells which build of a controller makes a request: by the images of the
// calling pod and, for Crossplane's writes, the revisions of Composition and
// functions. A pod's images never change, so that they are asked for once; it is
// safe for concurrent use.
type Builds struct {
	client    dynamic.Interface
	now       func() time.Time
	pods      *lru.Cache
	revisions *lru.Cache
	functions *lru.Cache
}

func New(c dynamic.Interface) *Builds {
	return &Builds{client: c, now: time.Now, pods: lru.New(maxBuilds), revisions: lru.New(maxBuilds), functions: lru.New(1)}
}

// of a request about a child of p.
func (b *Builds) Of(ctx context.Context, u subject.User, p *parent.State) (allowance.Build, error) {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	images, known, err := b.images(ctx, u)
	if err != nil || !known {
		return allowance.Build{}, err
	}
	parts := slices.Clone(images)
	if p != nil && p.CompositionRevision != "" {
		parts = append(parts, "composition "+p.CompositionRevision)
		functions, err := b.functionsOf(ctx, p.CompositionRevision)
		if err != nil {
			return allowance.Build{}, err
		}
		parts = append(parts, functions...)
	}
	return allowance.Build{Fingerprint: fingerprint(parts), Images: strings.Fields(strings.Join(images, " "))}, nil
}

// fingerprintLength is the number of hex digits of a fingerprint.
const fingerprintLength = 12

// fingerprint of what a build consists of; "" for nothing (KR-06-21).
func fingerprint(parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:])[:fingerprintLength]
}

// images of the calling pod, sorted and with their digests. None for callers
// outside of pods; not known where the pod is gone, or the kubelet has not
// reported all digests yet: half of them would look like another build.
func (b *Builds) images(ctx context.Context, u subject.User) (images []string, known bool, err error) {
	uid, name := first(u.Extra[extraPodUID]), first(u.Extra[extraPodName])
	namespace, _, ok := strings.Cut(strings.TrimPrefix(u.Name, "system:serviceaccount:"), ":")
	if uid == "" || name == "" || !ok {
		return nil, true, nil
	}
	if have, ok := b.pods.Get(uid); ok {
		return have.([]string), true, nil
	}
	pod, err := b.client.Resource(podResource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if kerrors.IsNotFound(err) || err == nil && string(pod.GetUID()) != uid {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("cannot read pod %s/%s: %w", namespace, name, err)
	}
	if images, known = imagesOf(pod); known {
		b.pods.Add(uid, images)
	}
	return images, known, nil
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// imagesOf a pod's containers; complete where all of them are known by digest. A
// pod that no kubelet runs has none.
func imagesOf(pod *unstructured.Unstructured) (images []string, complete bool) {
	digests := map[string]string{}
	for _, e := range list(pod, "status", "containerStatuses") {
		name, _ := e["name"].(string)
		digests[name], _ = e["imageID"].(string)
	}
	node, _, err := unstructured.NestedString(pod.Object, "spec", "nodeName")
	complete = err == nil
	for _, e := range list(pod, "spec", "containers") {
		name, _ := e["name"].(string)
		image, _ := e["image"].(string)
		if digest := digests[name]; digest != "" {
			image += " " + digest
		} else if node != "" {
			complete = false
		}
		images = append(images, image)
	}
	slices.Sort(images)
	return images, complete
}

func list(o *unstructured.Unstructured, path ...string) []map[string]any {
	items, _, err := unstructured.NestedSlice(o.Object, path...)
	if err != nil {
		return nil
	}
	out := make([]map[string]any, 0, len(items))
	for _, i := range items {
		if m, ok := i.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// functionsOf a composition revision: the active revisions of the functions in
// its pipeline, sorted.
func (b *Builds) functionsOf(ctx context.Context, revision string) ([]string, error) {
	names, err := b.pipeline(ctx, revision)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	active, err := b.active(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range names {
		out = append(out, "function "+n+" "+active[n])
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// pipeline of a composition revision, which never changes: the names of its
// functions. None where it is gone.
func (b *Builds) pipeline(ctx context.Context, revision string) ([]string, error) {
	if have, ok := b.revisions.Get(revision); ok {
		return have.([]string), nil
	}
	o, err := b.client.Resource(compositionRevision).Get(ctx, revision, metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read CompositionRevision %s: %w", revision, err)
	}
	var names []string
	for _, step := range list(o, "spec", "pipeline") {
		ref, _ := step["functionRef"].(map[string]any)
		if n, _ := ref["name"].(string); n != "" {
			names = append(names, n)
		}
	}
	b.revisions.Add(revision, names)
	return names, nil
}

type activeFunctions struct {
	byName map[string]string
	until  time.Time
}

// active revisions by function: the image that each runs.
func (b *Builds) active(ctx context.Context) (map[string]string, error) {
	if have, ok := b.functions.Get(""); ok {
		if f := have.(activeFunctions); b.now().Before(f.until) {
			return f.byName, nil
		}
	}
	all, err := b.client.Resource(functionRevision).List(ctx, metav1.ListOptions{})
	if kerrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // There are no functions.
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list FunctionRevisions: %w", err)
	}
	out := map[string]string{}
	for i := range all.Items {
		o := &all.Items[i]
		if state, _, err := unstructured.NestedString(o.Object, "spec", "desiredState"); err != nil || state != "Active" {
			continue
		}
		image, _, err := unstructured.NestedString(o.Object, "spec", "image")
		if err != nil {
			image = ""
		}
		raw, err := json.Marshal([]string{o.GetName(), image})
		if err != nil {
			return nil, fmt.Errorf("cannot encode a FunctionRevision: %w", err)
		}
		out[o.GetLabels()["pkg.crossplane.io/package"]] = string(raw)
	}
	b.functions.Add("", activeFunctions{byName: out, until: b.now().Add(functionsFor)})
	return out, nil
}
