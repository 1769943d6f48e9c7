package operations

import (
	"os"
	"testing"

	"github.com/kausality-io/function-kausality/test/operations/site"
)

// the Site of all tests. None changes its installation.
var the *site.Site

func TestMain(m *testing.M) { os.Exit(site.Main(m, &the)) }
