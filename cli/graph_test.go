package cli

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestSVG: a picture is well-formed XML whatever the hops hold, and has a box for
// each hop, an arrow between two, and the head of the arrows.
func TestSVG(t *testing.T) {
	hops := []v1alpha1.Hop{
		{Kind: "XDatabase", Name: "orders", Generation: 4, User: `<script>"&hans`, Labels: map[string]string{"ticket": "SHOP-1 <&>"}},
		{Kind: "Database", Name: "orders-1", User: "crossplane"},
	}
	for n, want := range []string{"rect 0, path 1", "rect 1, path 1", "rect 2, path 2"} {
		out := &strings.Builder{}
		svg(out, hops[:n])
		count := map[string]int{}
		for d := xml.NewDecoder(strings.NewReader(out.String())); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			if e, ok := token.(xml.StartElement); ok {
				count[e.Name.Local]++
			}
		}
		if got := fmt.Sprintf("rect %d, path %d", count["rect"], count["path"]); got != want {
			t.Errorf("%d hops: %s, want %s:\n%s", n, got, want, out)
		}
	}
}
