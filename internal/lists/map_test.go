package lists

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestMap: each element has its place, and an empty list is nil, as one that is appended to.
func TestMap(t *testing.T) {
	assert.Equal(t, []string{"2", "1"}, Map([]int{2, 1}, strconv.Itoa))
	assert.Nil(t, Map([]int{}, strconv.Itoa))
}
