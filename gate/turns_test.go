package gate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/parent"
)

// Namespaces take turns, whatever the order and the number of their objects (KR-13-47).
func TestTurns(t *testing.T) {
	turns, none := newTurns(), parent.Ref{}
	owner := parent.Ref{GroupVersionKind: schema.GroupVersionKind{Kind: "XDatabase"}, Name: "x"}
	mr := func(namespace string, i int) parent.Ref {
		return parent.Ref{Namespace: namespace, Name: fmt.Sprint(i), UID: "u"}
	}
	for i := range 500 {
		require.False(t, turns.take(mr("a", i), none))
		require.False(t, turns.take(mr("a", i), none), "it waits once")
	}
	require.False(t, turns.take(mr("b", 0), none))
	require.False(t, turns.take(mr("", 0), owner))
	require.False(t, turns.take(mr("", 1), owner))
	var got []string
	for range 6 {
		ref, ok := turns.next()
		require.True(t, ok)
		got = append(got, ref.Namespace+"/"+ref.Name)
		if len(got) == 1 {
			turns.drop(ref) // it is gone, or needs no mask any more
			assert.False(t, turns.take(ref, none))
			continue
		}
		assert.True(t, turns.take(ref, none), "it is its turn")
	}
	assert.Equal(t, []string{"a/0", "b/0", "/0", "a/1", "/1", "a/2"}, got)
	turns.drop(mr("a", 3))
	ref, _ := turns.next()
	assert.Equal(t, "3", ref.Name, "what waits keeps its place")
}

func TestTurnsRun(t *testing.T) {
	turns := newTurns()
	ctx, stop := context.WithCancel(t.Context())
	got := make(chan parent.Ref, 20)
	done := make(chan struct{})
	go func() {
		turns.run(ctx, rate.NewLimiter(rate.Every(time.Millisecond), 1), func(ref parent.Ref) { got <- ref })
		close(done)
	}()
	for round := range 2 { // the second time it was idle
		for i := range 10 {
			turns.take(parent.Ref{Namespace: "a", Name: fmt.Sprint(round, i)}, parent.Ref{})
		}
		for i := range 10 {
			assert.Equal(t, fmt.Sprint(round, i), (<-got).Name)
		}
	}
	stop()
	<-done
}
