package operations

import "testing"

// TestForbidden: each component has the access that it needs. It is parallel to others, as TestRolesNameWhatIsUsed alone is: both run after all
// others.
func TestForbidden(t *testing.T) {
	t.Parallel()
	the.NothingRefused(t)
}
