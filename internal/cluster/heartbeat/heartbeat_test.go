package heartbeat

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/kausality-io/function-kausality/internal/await"
)

// heartbeating cluster, of which the Leases are read and written.
func heartbeating(t *testing.T) (*Heartbeat, *fake.FakeDynamicClient) {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{Leases: "LeaseList"}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
	h, err := New(client, "home", "beat", logr.Discard())
	require.NoError(t, err)
	return h, client
}

// TestHeartbeat: watches are late until the first heartbeat came, and while the last one is old; one that is written but does not
// come over the watch does not count (KR-13-24).
func TestHeartbeat(t *testing.T) {
	h, _ := heartbeating(t)
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	h.now = func() time.Time { return now }
	assert.True(t, h.Late(), "none came yet")
	require.NoError(t, h.write(t.Context()))
	assert.True(t, h.Late(), "it was written, and did not come")
	beat := func(at time.Time) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"renewTime": at.Format(time.RFC3339Nano)}}}
	}
	h.came(BeatOf(beat(now)))
	assert.False(t, h.Late())
	now = now.Add(lateAfter + time.Millisecond)
	assert.True(t, h.Late())
	h.came(BeatOf(beat(now.Add(-time.Minute))))
	assert.True(t, h.Late(), "an old one came late")
	h.came(BeatOf(&unstructured.Unstructured{}))
	assert.True(t, h.Late(), "it is none of ours")
	h.came(BeatOf(beat(now.Add(time.Hour))))
	assert.True(t, h.Late(), "what the other watches missed may come after it (KR-13-74)")
	now = now.Add(catchUp)
	assert.False(t, h.Late())
	now = now.Add(lateAfter - catchUp + time.Millisecond)
	assert.True(t, h.Late(), "one of the future counts as one of the present")
	assert.False(t, (*Heartbeat)(nil).Late(), "there is no heartbeat")
}

// TestHeartbeatRuns: replicas write heartbeats between them, one in beatEvery, and they come to each; the first write creates the Lease.
func TestHeartbeatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, client := heartbeating(t)
		all := []*Heartbeat{first}
		for range 2 {
			h, err := New(client, "home", "beat", logr.Discard())
			require.NoError(t, err)
			all = append(all, h)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, len(all))
		started := time.Now()
		for _, h := range all {
			go func() { ended <- h.Start(ctx) }()
		}
		seen := int64(0)
		for range 3 {
			await.Sleep(2 * beatEvery)
			synctest.Wait()
			for _, h := range all {
				assert.Greater(t, h.seen.Load(), seen)
				assert.False(t, h.Late())
			}
			seen = first.seen.Load()
		}
		took := time.Since(started)
		cancel()
		for range all {
			assert.NoError(t, <-ended)
		}
		writes := 0
		for _, a := range client.Actions() {
			if a.GetVerb() == "patch" || a.GetVerb() == "create" {
				writes++
			}
		}
		// Each of them finds nothing, tries to create it, and may write at the same moment as another one.
		assert.LessOrEqual(t, writes, 2*len(all)+len(all)*int(1+took/beatEvery))
		t.Logf("%d writes by %d replicas in %s", writes, len(all), took)
	})
}

// TestPingConnections: what the environment sets goes first.
func TestPingConnections(t *testing.T) {
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "7")
	t.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "")
	require.NoError(t, PingConnections())
	assert.Equal(t, "7", os.Getenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS"))
	assert.Equal(t, pingWithin, os.Getenv("HTTP2_PING_TIMEOUT_SECONDS"))
}
