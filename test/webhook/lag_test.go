package webhook

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

var kausalities = v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceKausalities)

// lagging is the kubeconfig of an API server that sends no watch events while held
// is locked, as one under load does. Each read that it answers is noted in reads, which may be nil.
func lagging(t *testing.T, held *sync.RWMutex, reads *answers) string {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", the.kubeconfig)
	require.NoError(t, err)
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	srv := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Query().Get("watch") != "" {
				r.Body = late{r.Body, held}
			} else if reads != nil && r.Request.Method == http.MethodGet && r.StatusCode == http.StatusOK {
				reads.note(r.Request.URL)
			}
			return nil
		},
	})
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"lagging": {Server: srv.URL}},
		Contexts: map[string]*clientcmdapi.Context{"lagging": {Cluster: "lagging"}}, CurrentContext: "lagging",
	}, path))
	return path
}

// answers are the times at which reads were answered, by path and field selector. It is safe for concurrent use.
type answers struct {
	mu sync.Mutex
	at map[string][]time.Time
}

func (a *answers) note(u *url.URL) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at == nil {
		a.at = map[string][]time.Time{}
	}
	key := u.Path + u.Query().Get("fieldSelector")
	a.at[key] = append(a.at[key], time.Now())
}

// since a time.
func (a *answers) since(began time.Time, key string) []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.at[key]), began.After)
}

// late passes on what it reads once held is unlocked.
type late struct {
	io.ReadCloser
	held *sync.RWMutex
}

func (l late) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	l.held.RLock()
	defer l.held.RUnlock()
	return n, err
}

// TestFreezeWithLaggingWatch: a freeze applies to the next request to the replica
// that admitted it, however late that replica's watch is. A parent may be named by
// a UID, or as a Claim is, without (KR-05-20).
func TestFreezeWithLaggingWatch(t *testing.T) {
	t.Parallel()
	var held sync.RWMutex
	f := startFleet(t, "lag", options{replicas: 1, args: []string{"--kubeconfig=" + lagging(t, &held, nil)}})
	s := newFixture(t, f, "lag")
	s.settled("part")
	bucket := s.create("Bucket", "bucket", map[string]any{"resourceRef": map[string]any{"apiVersion": "lag" + groupSuffix + "/v1",
		"kind": "XBucket", "name": "xbucket"}})
	s.create("XBucket", "xbucket", map[string]any{"claimRef": map[string]any{"apiVersion": bucket.GetAPIVersion(), "kind": "Bucket",
		"namespace": s.ns, "name": "bucket"}})
	for _, child := range []struct{ parents, parent, children, name string }{
		{parents: "apps", parent: "app", children: "parts", name: "part"},
		{parents: "buckets", parent: "bucket", children: "xbuckets", name: "xbucket"},
	} {
		n := 0
		write := func() error {
			n++
			_, err := s.alice().Resource(s.resource(child.children)).Namespace(s.ns).Patch(t.Context(), child.name, types.MergePatchType,
				fmt.Appendf(nil, `{"spec":{"count":%d}}`, n), metav1.PatchOptions{})
			return err
		}
		s.warm(write)
		func() {
			held.Lock()
			defer held.Unlock()
			_, err := s.hans.Resource(s.resource(child.parents)).Namespace(s.ns).Patch(t.Context(), child.parent, types.MergePatchType,
				[]byte(`{"metadata":{"annotations":{"kausality.io/freeze":"true"}}}`), metav1.PatchOptions{})
			require.NoError(t, err)
			mustRefuse(t, write(), "Frozen")
		}()
	}
}

// create an object of a kind, as hans.
func (s *fixture) create(kind, name string, spec map[string]any) *unstructured.Unstructured {
	s.t.Helper()
	o, err := s.hans.Resource(s.resource(strings.ToLower(kind)+"s")).Namespace(s.ns).Create(s.t.Context(),
		object(s.name, kind, s.ns, name, spec), metav1.CreateOptions{})
	require.NoError(s.t, err)
	return o
}

// mostReads of a thing that were answered since a time: one in five seconds begins, and one has begun before.
func mostReads(since time.Time) int { return 2 + int(time.Since(since)/(5*time.Second)) }

// TestPoliciesOnAReplicaThatWatchesNothing: a new ApprovalRule, the removal of an approval by a policy, and the freeze of a Kausality policy
// hold within five seconds on a replica whose watches are silent, and so does their end; each kind of policies is listed at most once in five seconds for
// that, whatever is decided meanwhile (KR-13-74).
func TestPoliciesOnAReplicaThatWatchesNothing(t *testing.T) {
	t.Parallel()
	var held sync.RWMutex
	var reads answers
	f := startFleet(t, "stale", options{replicas: 2, of: func(i int) []string {
		if i == 0 {
			return nil
		}
		return []string{"--kubeconfig=" + lagging(t, &held, &reads)}
	}})
	s, frozen := newFixture(t, f, "stale"), newFixture(t, f, "stale-frozen")
	s.settled("ruled", "excepted")
	frozen.settled("part")
	f.proxy.pinned.Store(2)
	// try the change of a part until it is decided, which stores nothing.
	try := func(s *fixture, part string) (err error) {
		wait.For(t, "a change to be decided", wait.Patience, func(context.Context) error {
			if err = s.count(s.ctrl, part, 7, metav1.DryRunAll); unreadable(err) {
				return err
			}
			return nil
		})
		return err
	}
	passes := func(s *fixture, part string) {
		wait.For(t, "the change of "+part+" to pass", wait.Patience, func(context.Context) error { return try(s, part) })
	}
	exception := policy(t, "ClusterApprovalPolicy", "stale", "subjects: [{kind: User, name: "+controller+"}]\nrules: [{apiVersion: stale"+groupSuffix+
		"/*, kind: Part, namespace: stale, name: excepted, mode: always}]")
	write(t, clusterApprovals, exception)
	s.annotate(map[string]any{v1alpha1.AnnotationKeyApprovePrefix + mustRefuse(t, try(s, "ruled"), "Drift"): "always"})
	passes(s, "ruled")
	passes(s, "excepted")
	require.NoError(t, frozen.count(s.alice(), "part", 1))
	wait.For(t, "the second replica to have a heartbeat", wait.Patience, func(context.Context) error {
		if late := f.replicas[1].metric(t, "kausality_watches_late"); late != 0 {
			return fmt.Errorf("late: %v", late)
		}
		return nil
	})
	held.Lock()
	release := sync.OnceFunc(held.Unlock)
	defer release()
	wait.Pause(t, 6*time.Second) // after which what it read live may have no later change
	write(t, approvalRules, policy(t, "ApprovalRule", "stale", "match: {namespaces: [stale]}\nrequire: [{count: 2}]"))
	require.NoError(t, s.hans.Resource(clusterApprovals).Delete(t.Context(), exception.GetName(), metav1.DeleteOptions{}))
	write(t, kausalities, policy(t, "Kausality", "stale", "resources: [{apiGroups: [stale"+groupSuffix+
		`], resources: ["*"]}]`+"\nnamespaces: {names: [stale-frozen]}\nfreeze: {message: audit}"))
	changed := time.Now()
	for _, after := range []time.Duration{5 * time.Second, 10 * time.Second} {
		wait.Pause(t, time.Until(changed.Add(after)))
		for range 10 {
			if err := try(s, "ruled"); !refused(err, "Drift") || !strings.Contains(err.Error(), " of 2 approvals") {
				t.Errorf("the new rule does not hold %s after it was written: %v", after, err)
			}
			if err := try(s, "excepted"); !refused(err, "Drift") {
				t.Errorf("a policy still approves %s after it was removed: %v", after, err)
			}
			if err := try(frozen, "part"); !refused(err, "Frozen") {
				t.Errorf("the freeze of the policy does not hold %s after it was written: %v", after, err)
			}
		}
	}
	for _, kind := range slices.Concat(v1alpha1.PolicyResources(), []string{v1alpha1.ResourceKausalities}) {
		answered := reads.since(changed, "/apis/kausality.io/v1alpha1/"+kind)
		if len(answered) == 0 {
			t.Errorf("the %s are never read live", kind)
		}
		if most := mostReads(changed); len(answered) > most {
			t.Errorf("the %s are read live %d times, at most %d", kind, len(answered), most)
		}
	}
	require.NoError(t, s.hans.Resource(approvalRules).Delete(t.Context(), "stale", metav1.DeleteOptions{}))
	require.NoError(t, s.hans.Resource(kausalities).Delete(t.Context(), "stale", metav1.DeleteOptions{}))
	wait.Pause(t, 5*time.Second)
	require.NoError(t, try(s, "ruled"))
	mustRefuse(t, try(frozen, "part"), "Drift")
	release()
	passes(s, "ruled")
	mustRefuse(t, try(s, "excepted"), "Drift")
}

// TestFreezeOnAReplicaThatWatchesNothing: a freeze that one replica admitted holds on another one within five seconds, and for as long
// as that one's watches are silent; while they are, allowed changes cost at most one read of their parent and one of its Namespace in five
// seconds, and nothing is refused that is not frozen (KR-13-24). The reads are counted between that replica and the API server, and only
// those that the allowed changes are about: a replica that leads also reads, at any time, what Drifts of any test are about.
func TestFreezeOnAReplicaThatWatchesNothing(t *testing.T) {
	t.Parallel()
	var held sync.RWMutex
	var reads answers
	f := startFleet(t, "silent", options{replicas: 2, of: func(i int) []string {
		if i == 0 {
			return nil
		}
		return []string{"--kubeconfig=" + lagging(t, &held, &reads)}
	}})
	s, other := newFixture(t, f, "silent"), newFixture(t, f, "silent-other")
	s.settled("part")
	other.settled("part")
	f.proxy.pinned.Store(2)
	n := 0
	// write until it is decided: on a loaded machine a live read may take longer than it may, and what cannot be read is refused.
	write := func(s *fixture) (err error) {
		wait.For(t, "a change to be decided", wait.Patience, func(context.Context) error {
			n++
			if err = s.count(s.alice(), "part", n); unreadable(err) {
				return err
			}
			return nil
		})
		return err
	}
	wait.For(t, "the second replica to have a heartbeat", wait.Patience, func(context.Context) error {
		if err := write(s); err != nil || f.replicas[1].metric(t, "kausality_watches_late") != 0 {
			return fmt.Errorf("late: %v, error %w", f.replicas[1].metric(t, "kausality_watches_late"), err)
		}
		return nil
	})
	require.NoError(t, write(other))
	wait.Pause(t, 11*time.Second) // in which it reads live what it wrote itself
	held.Lock()
	defer held.Unlock()
	f.proxy.pinned.Store(1)
	s.annotate(map[string]any{"kausality.io/freeze": "true"})
	frozen := time.Now()
	f.proxy.pinned.Store(2)
	for _, after := range []time.Duration{5 * time.Second, 10 * time.Second, 15 * time.Second} {
		wait.Pause(t, time.Until(frozen.Add(after)))
		for range 20 {
			mustRefuse(t, write(s), "Frozen")
			require.NoError(t, write(other))
		}
	}
	for what, key := range map[string]string{
		"parent":    fmt.Sprintf("/apis/%s/namespaces/%s/apps/app", other.app.GetAPIVersion(), other.ns),
		"Namespace": "/api/v1/namespacesmetadata.name=" + other.ns,
	} {
		answered := reads.since(frozen, key)
		if len(answered) == 0 {
			t.Errorf("the %s of allowed changes is never read live", what)
		}
		if most := mostReads(frozen); len(answered) > most {
			t.Errorf("the %s of allowed changes is read live %d times, at most %d", what, len(answered), most)
		}
	}
}
