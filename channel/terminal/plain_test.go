package terminal

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/view"
	"github.com/kausality-io/function-kausality/channel/view/viewtest"
	"github.com/kausality-io/function-kausality/internal/await"
)

// changedLine is printed when a watch reports it, in between others.
const changedLine = "\nWhat waits has changed. Enter shows what it is now.\n"

// lineByLine is what is printed where a user types something.
func lineByLine(t *testing.T, o view.Options, typed string) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, Plain(t.Context(), Options{Options: o, Cluster: "prod", In: strings.NewReader(typed), Out: &out}))
	return strings.ReplaceAll(out.String(), changedLine, "")
}

// TestPlain covers KR-17-20: line by line the same is shown and decided, without anything that a screen reader could not read.
func TestPlain(t *testing.T) {
	s, o, _ := viewtest.New(t, viewtest.Held(waiting))
	out := lineByLine(t, o, "1\n1\na\n\na\nyes\nr\n\nyes\nnot before the audit\nyes\nx\nb\nb\nq\n")
	golden(t, "plain", out)
	assert.Equal(t, "once", s.Annotations(viewtest.ShopPath)[v1alpha1.AnnotationKeyApprovePrefix+viewtest.HeldID])
	assert.Contains(t, s.Annotations(viewtest.ShopPath)[v1alpha1.AnnotationKeyRejections], "not before the audit")
	assert.NotContains(t, out, "\x1b")
	for _, r := range out {
		assert.False(t, r >= '\u2500' && r <= '\u259f', "%c draws a frame", r)
	}
}

// TestPlainHostile covers KR-17-21 line by line.
func TestPlainHostile(t *testing.T) {
	_, o, _ := viewtest.New(t, viewtest.Held(func(d *v1alpha1.Drift) {
		d.Spec.Child.Name = hostile
		d.Spec.Difference[0].New = strings.Repeat(hostile, 1<<20/len(hostile))
	}))
	out := lineByLine(t, o, hostile+"\n"+strings.Repeat("y", 100_000)+"\n1\n1\nn\nn\na\n\nq\n")
	for _, never := range []string{"\x1b", "\u202e", "\x07", "\r"} {
		assert.NotContains(t, out, never)
	}
	assert.Less(t, len(out), 200<<10)
}

// written is what Plain prints, for a test that waits for it.
type written struct {
	mu    sync.Mutex
	out   bytes.Buffer
	wrote await.Signal
}

func (w *written) Write(p []byte) (int, error) {
	defer w.wrote.Raise()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.String()
}

// await that text is printed.
func (w *written) await(t *testing.T, text string) {
	t.Helper()
	w.wrote.Until(t, "the text "+text, func() bool { return strings.Contains(w.String(), text) })
}

// TestPlainLive covers KR-17-22: line by line it is printed that what waits has changed, and it ends with its context.
func TestPlainLive(t *testing.T) {
	s, o, _ := viewtest.New(t, viewtest.Held(nil))
	o.Now = nil
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in, typed := io.Pipe()
	out := &written{}
	ended := make(chan error, 1)
	go func() { ended <- Plain(ctx, Options{Options: o, Cluster: "prod", In: in, Out: out}) }()
	out.await(t, "1 change of 1 cause")
	s.AwaitWatches(t, 1)
	s.Put(t, viewtest.Held(func(d *v1alpha1.Drift) {
		d.Name, d.Spec.ID, d.Spec.Child.Name = "00000000000000aa", "00000000000000aa", "bills"
	}))
	out.await(t, changedLine)
	_, err := io.WriteString(typed, "\n")
	require.NoError(t, err)
	out.await(t, "2 changes of 1 cause")
	cancel()
	require.NoError(t, typed.Close())
	require.NoError(t, <-ended)
	s.AwaitWatches(t, 0)
}
