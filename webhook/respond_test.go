package webhook

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/decider"
)

// docs/reasons.md has every audit annotation that there is, and no other (KR-07-07).
func TestAuditAnnotations(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "docs", "reasons.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(raw), "\n## Audit annotations\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(section, -1) {
		documented = append(documented, m[1])
	}
	d := admission.Decision{
		Answer: admission.Answer{Class: outcome.ClassDrift, Mode: v1alpha1.ModeEnforce, Reason: outcome.ReasonDrift, Digest: "id",
			Resolution: outcome.ResolutionRefused, Exception: &outcome.ExceptionUse{Policy: "policy"}},
		Phase: v1alpha1.PhaseInitialized, Trace: trace.Trace{{}}, Held: &admission.Decision{Answer: admission.Answer{Digest: "held"}},
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(documented)), slices.Sorted(maps.Keys(decider.Audit(&admission.Request{}, d)))); diff != "" {
		t.Errorf("docs/reasons.md (-), and the source (+):\n%s", diff)
	}
}
