package figures

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDecisions(t *testing.T) {
	const begin = "# TYPE kausality_decision_seconds histogram\n"
	buckets := func(half, five, all string) string {
		return begin + `kausality_decision_seconds_bucket{le="0.001"} 3` + "\n" + `kausality_decision_seconds_bucket{le="0.5"} ` + half + "\n" +
			`kausality_decision_seconds_bucket{le="5"} ` + five + "\n" + `kausality_decision_seconds_bucket{le="+Inf"} ` + all + "\n" +
			"kausality_decision_seconds_sum 1\nkausality_decision_seconds_count " + all + "\n"
	}
	for name, c := range map[string]struct {
		text string
		want map[string]string
		late uint64
		err  string
	}{
		"Within":   {text: buckets("7", "7", "7"), want: map[string]string{"decisions": "7", "slowest ms": "500"}},
		"Slowest":  {text: buckets("7", "8", "8"), want: map[string]string{"decisions": "8", "slowest ms": "5000"}},
		"Late":     {text: buckets("7", "7", "9"), want: map[string]string{"decisions": "9", "slowest ms": "500", "late": "2"}, late: 2},
		"None":     {text: strings.NewReplacer(" 3", " 0", "_sum 1", "_sum 0").Replace(buckets("0", "0", "0")), err: "there are no decisions"},
		"NoMetric": {text: "other 1\n", err: "has no kausality_decision_seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.text) }))
			t.Cleanup(s.Close)
			got := map[string]string{}
			late, err := Decisions(t.Context(), got, s.URL)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.late, late)
		})
	}
}
