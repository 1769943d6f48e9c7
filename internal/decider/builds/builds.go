package builds

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/lru"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
)

// Extra fields of users with a token that is bound to a Pod.
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
	// maxCached bounds the Pods, and the revisions of Compositions, that are cached.
	maxCached = 2048
	// maxSources bounds the Compositions, Functions and graphs that are cached.
	maxSources = 256
	// readTimeout bounds the reads for one build or author. To wait for what another request reads may take as long again.
	readTimeout = time.Second
	// unknownTTL is for how long a Pod with unknown images, and a deleted revision of a Composition, are not read again.
	unknownTTL = 5 * time.Second
	// readTTL is for how long a Composition, Function or graph of which a revision is a cause is cached, and activeTTL the active revisions of
	// functions: with an earlier one, a new revision would be no cause, and its author could approve what it changes.
	readTTL, activeTTL = 10 * time.Second, time.Second
)

// Builds identifies the build of the controller that makes a request. The images of a Pod and the pipeline of
// a revision never change, so that they are read once. It is safe for concurrent use.
type Builds struct {
	// Caller returns the program that makes a request, as it names itself, for callers outside of Pods; nil where it is not known. Set it before
	// use.
	Caller func(context.Context) string

	client dynamic.Interface
	// pods are the images, []string, by UID; revisions are of Compositions, by name.
	pods, revisions *lru.Cache
	// kept are the revisions of Compositions that our function turned out to be in, by name.
	kept *lru.Cache
	// unknown are the UIDs of Pods that are gone or do not report their digests yet, and "revision NAME" of deleted revisions.
	unknown *cache.LRUExpireCache
	// graphs are the newest revisions of graphs of kro, authorship.GraphRevision, by the UID of the graph.
	graphs *lru.Cache
	// read are the Compositions, Functions and graphs of revisions, authorship.Source, by resource, name and revision, and the active revisions
	// of functions, map[string]string.
	read *cache.LRUExpireCache
	// flight has the reads that all requests share that need them at a time: a new revision reaches many composites at once.
	flight singleflight.Group
}

// New returns Builds that reads by a client.
func New(c dynamic.Interface) *Builds {
	return &Builds{client: c, pods: lru.New(maxCached), revisions: lru.New(maxCached), kept: lru.New(maxCached),
		graphs: lru.New(maxSources), unknown: cache.NewLRUExpireCache(maxCached), read: cache.NewLRUExpireCache(maxSources)}
}

// Of returns the build that makes a request about a child of p; empty if it is unknown. p is nil for none. graph is the graph of
// kro that made the kind of p, "" for none.
func (b *Builds) Of(ctx context.Context, u subject.User, p *parent.State, graph string) (allowance.Build, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var newest authorship.GraphRevision
	var functions []string
	var err error
	if p != nil && graph != "" {
		if newest, err = b.newest(ctx, graph, p.GroupKind()); err != nil {
			return allowance.Build{Unread: true}, err
		}
	}
	of := allowance.GraphRevision{Of: newest.Of, Name: newest.Name, Number: newest.Number}
	if p != nil && p.CompositionRevision != "" {
		if functions, err = b.functionsOf(ctx, p.CompositionRevision); err != nil {
			return allowance.Build{Graph: of, Unread: true}, err
		}
	}
	images, known, err := b.images(ctx, u)
	if err != nil || !known { // the revisions are causes nevertheless
		return allowance.Build{Functions: revisionsOf(functions), Graph: of}, err
	}
	fingerprint := allowance.Fingerprint
	if len(images) == 0 { // a caller outside of Pods
		if images = b.named(ctx); images != nil {
			fingerprint = allowance.ClaimedFingerprint
		}
	}
	parts := slices.Clone(images)
	controller := ""
	if p != nil && p.CompositionRevision != "" {
		controller = fingerprint(images)
		parts = slices.Concat(parts, []string{"composition " + p.CompositionRevision}, functions)
	}
	if of.Name != "" {
		controller = fingerprint(images)
		parts = append(parts, "graph "+of.Name+" "+string(newest.UID))
	}
	return allowance.Build{
		Fingerprint: fingerprint(parts), Images: strings.Fields(strings.Join(images, " ")), Functions: revisionsOf(functions),
		Controller: controller, Graph: of,
	}, nil
}

// images of the calling Pod, sorted and with their digests. None for callers outside of Pods. Not known if the
// Pod is gone, or the kubelet has not reported all digests yet: some of them would be another build.
func (b *Builds) images(ctx context.Context, u subject.User) (images []string, known bool, err error) {
	uid, name := first(u.Extra[extraPodUID]), first(u.Extra[extraPodName])
	namespace, _, ok := strings.Cut(strings.TrimPrefix(u.Name, "system:serviceaccount:"), ":")
	if uid == "" || name == "" || !ok {
		return nil, true, nil
	}
	if have, ok := b.pods.Get(uid); ok {
		return have.([]string), true, nil
	}
	if _, ok := b.unknown.Get(uid); ok {
		return nil, false, nil
	}
	pod, err := b.client.Resource(podResource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if kerrors.IsNotFound(err) || err == nil && string(pod.GetUID()) != uid {
		b.unknown.Add(uid, nil, unknownTTL)
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("cannot read pod %s/%s: %w", namespace, name, err)
	}
	if images, known = imagesOf(pod); known {
		b.pods.Add(uid, images)
	} else {
		b.unknown.Add(uid, nil, unknownTTL)
	}
	return images, known, nil
}

// named returns the program that makes a request, where nothing else shows its build; nil where it is not known.
func (b *Builds) named(ctx context.Context) []string {
	if b.Caller == nil {
		return nil
	}
	if name := b.Caller(ctx); name != "" {
		return []string{"user-agent:" + strings.ReplaceAll(name, " ", "_")}
	}
	return nil
}

// first of the values of an extra field; "" for none.
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// imagesOf the containers of a Pod; complete if all of them are known by digest. A Pod without a node never
// gets digests.
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

// list returns the list of objects at a path; nil for none.
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

// functionsOf a CompositionRevision: the active revisions of the functions in its pipeline, sorted.
func (b *Builds) functionsOf(ctx context.Context, revision string) ([]string, error) {
	read, err := b.cached(ctx, revision)
	if read == nil || len(read.steps) == 0 {
		return nil, err
	}
	active, err := b.active(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range read.steps {
		if s.function != "" {
			out = append(out, "function "+s.function+" "+active[s.function])
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// revisionsOf functions as functionsOf returns them, by their names; a function without an active revision has none.
func revisionsOf(functions []string) []string {
	var out []string
	for _, f := range functions {
		words := strings.SplitN(f, " ", 3)
		if name, _ := decoded(words[len(words)-1]); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// decoded returns the name and image of an active revision, as active returns it; "" for what is none, as the name of a function.
func decoded(active string) (name, image string) {
	var nameAndImage []string
	if err := json.Unmarshal([]byte(active), &nameAndImage); err != nil || len(nameAndImage) != 2 {
		return "", ""
	}
	return nameAndImage[0], nameAndImage[1]
}

// revision of a Composition, which never changes but for its annotations.
type revision struct {
	authorship.Revision
	// steps of its pipeline.
	steps []step
}

// cached is revision, but one that is gone is remembered as such for unknownTTL. Authors are read without it: the author of a revision that
// was requested before it was made would not be known, and could approve it (KR-14-61).
func (b *Builds) cached(ctx context.Context, name string) (*revision, error) {
	if _, ok := b.unknown.Get("revision " + name); ok {
		return nil, nil
	}
	out, err := b.revision(ctx, name)
	if out == nil && err == nil {
		b.unknown.Add("revision "+name, nil, unknownTTL)
	}
	return out, err
}

// revision by its name; nil if it is gone.
func (b *Builds) revision(ctx context.Context, name string) (*revision, error) {
	if have, ok := b.revisions.Get(name); ok {
		return have.(*revision), nil
	}
	o, err := b.client.Resource(compositionRevision).Get(ctx, name, metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read CompositionRevision %s: %w", name, err)
	}
	out := &revision{Revision: authorship.RevisionOf(o), steps: stepsOf(o)}
	b.revisions.Add(name, out)
	return out, nil
}

// active revisions by function: name and image of each, as JSON. nil if there are no functions.
func (b *Builds) active(ctx context.Context) (map[string]string, error) {
	return shared(ctx, b, functionRevision.Resource, activeTTL, listActive)
}

// listActive reads what active returns.
func listActive(ctx context.Context, client dynamic.Interface) (map[string]string, error) {
	all, err := client.Resource(functionRevision).List(ctx, metav1.ListOptions{})
	if kerrors.IsNotFound(err) {
		return nil, nil // none
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
	return out, nil
}

// shared returns what was read under a key within a time, or what read returns, for all requests that need it at a time. It is read until the
// deadline of the first of them, also if that ends before.
func shared[T any](ctx context.Context, b *Builds, key string, ttl time.Duration, read func(context.Context, dynamic.Interface) (T, error)) (T, error) {
	if have, ok := b.read.Get(key); ok {
		return have.(T), nil
	}
	out, err, _ := b.flight.Do(key, func() (any, error) {
		if have, ok := b.read.Get(key); ok { // read since
			return have, nil
		}
		deadline, _ := ctx.Deadline()
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
		defer cancel()
		out, err := read(ctx, b.client)
		if err == nil {
			b.read.Add(key, out, ttl)
		}
		return out, err
	})
	return out.(T), err
}
