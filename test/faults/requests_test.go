package faults

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// requests of sizes, in their order.
type requests struct {
	sizes []int64
	// written is how many there are up to that which was written last, by the name of the database.
	written map[string]int
}

func (q *requests) add(size int64) {
	if !slices.Contains(q.sizes, size) {
		q.sizes = append(q.sizes, size)
	}
}

// write of a size to the cloud. It is an error where the size was not requested, where a later one is written already, and where it is written again
// that may not be. One that did not succeed may be repeated.
func (q *requests) write(name string, size int64, again, succeeded bool) error {
	n, written := slices.Index(q.sizes, size)+1, q.written[name]
	switch {
	case n == 0:
		return fmt.Errorf("no user requested that size, but %v", q.sizes)
	case n < written:
		return fmt.Errorf("size %d was requested after it, and is written", q.sizes[written-1])
	case n == written && !again:
		return fmt.Errorf("size %d was written before, and writing it again was not approved", size)
	}
	if q.written == nil {
		q.written = map[string]int{}
	}
	if succeeded {
		q.written[name] = n
	}
	return nil
}

// TestRequests: what is requested is written once, and in its order.
func TestRequests(t *testing.T) {
	t.Parallel()
	q := requests{}
	q.add(20)
	q.add(50)
	q.add(20)
	require.ErrorContains(t, q.write("a", 7, true, true), "no user requested that size, but [20 50]")
	require.NoError(t, q.write("a", 20, false, false))
	require.NoError(t, q.write("a", 20, false, true))
	require.ErrorContains(t, q.write("a", 20, false, true), "writing it again was not approved")
	require.NoError(t, q.write("a", 20, true, true))
	require.NoError(t, q.write("a", 50, false, true))
	require.ErrorContains(t, q.write("a", 20, true, true), "size 50 was requested after it")
	require.NoError(t, q.write("b", 20, false, true))
}
