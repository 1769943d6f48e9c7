package admission

import (
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/architecture.md names the steps in their order.
func TestStepsInArchitecture(t *testing.T) {
	page, err := os.ReadFile("../docs/architecture.md")
	require.NoError(t, err)
	var want []string
	for _, s := range slices.Concat(parentSteps, changeSteps) {
		name := runtime.FuncForPC(reflect.ValueOf(s).Pointer()).Name()
		want = append(want, regexp.MustCompile(`\w+$`).FindString(name))
	}
	var found []string
	for _, m := range regexp.MustCompile("(?m)^\\| \\d+ \\| `admission\\.(\\w+)` \\|").FindAllStringSubmatch(string(page), -1) {
		if slices.Contains(want, m[1]) {
			found = append(found, m[1])
		}
	}
	assert.Equal(t, want, found)
}
