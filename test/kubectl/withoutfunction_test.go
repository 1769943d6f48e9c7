package kubectl

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// withoutFunction: once a revision without the step of the function is used, explain reports that the condition that the function wrote last
// is out of date, until there is a step again (KR-12-32).
func withoutFunction(t *testing.T) {
	const outOfDate = "is out of date: the pipeline of composition revision "
	for _, with := range []bool{false, true} {
		require.NoError(t, the.Compose(t.Context(), story.Composition{Tier: "silver", Kausality: with}))
		wait.For(t, fmt.Sprintf("explain with the step %t", with), wait.Patience, func(context.Context) error {
			if r := the.pipe(t, "explain", xr); strings.Contains(r.out, outOfDate) == with {
				return fmt.Errorf("it prints %s", r.out)
			}
			return nil
		})
	}
}
