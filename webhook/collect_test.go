package webhook

import (
	"runtime/metrics"
	"testing"
)

func TestGCPercent(t *testing.T) {
	for name, tc := range map[string]struct {
		live uint64
		want int
	}{
		"Nothing":  {0, 400},
		"Tiny":     {1 << 20, 400},
		"Small":    {8 << 20, 300},
		"AsMuch":   {24 << 20, 100},
		"Large":    {1 << 30, 100},
		"VeryMuch": {1 << 60, 100},
	} {
		t.Run(name, func(t *testing.T) {
			if got := gcPercent(tc.live); got != tc.want {
				t.Errorf("want %d %%, got %d %%", tc.want, got)
			}
			if limited := memoryLimit(tc.want) == burstLimit; limited != (tc.want > 100) {
				t.Errorf("limited at %d %%: %v", tc.want, limited)
			}
		})
	}
}

// TestHeapLive: the runtime knows the metric by that name.
func TestHeapLive(t *testing.T) {
	s := []metrics.Sample{{Name: heapLive}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		t.Errorf("%s is no number of bytes: %v", heapLive, s[0].Value.Kind())
	}
}
