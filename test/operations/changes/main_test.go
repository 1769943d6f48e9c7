package changes

import (
	"os"
	"testing"

	"github.com/kausality-io/function-kausality/test/operations/site"
)

// the Site of all tests, each of which begins with an installation of its own.
var the *site.Site

func TestMain(m *testing.M) { os.Exit(site.Main(m, &the)) }

// TestForbidden: each component has the access that it needs. It is parallel to others, as no other test is: it runs after them.
func TestForbidden(t *testing.T) {
	t.Parallel()
	the.NothingRefused(t)
}
