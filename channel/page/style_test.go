package page

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var color = regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6});`)

// luminance of a color in hex, by WCAG 2.2.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	part := func(s string) float64 {
		n, err := strconv.ParseUint(s, 16, 8)
		require.NoError(t, err)
		if c := float64(n) / 255; c > 0.04045 {
			return math.Pow((c+0.055)/1.055, 2.4)
		}
		return float64(n) / 255 / 12.92
	}
	return 0.2126*part(hex[:2]) + 0.7152*part(hex[2:4]) + 0.0722*part(hex[4:])
}

// TestContrast covers KR-17-12: texts have the contrast of WCAG 2.2 AA in light and in dark, and borders of fields that of parts.
func TestContrast(t *testing.T) {
	light, dark, ok := strings.Cut(string(style), "@media (prefers-color-scheme: dark)")
	require.True(t, ok)
	for name, text := range map[string]string{"Light": light, "Dark": dark} {
		colors := map[string]float64{}
		for _, m := range color.FindAllStringSubmatch(text, -1) {
			colors[m[1]] = luminance(t, m[2])
		}
		require.Len(t, colors, 13)
		for _, pair := range []string{
			"text/back", "text/panel", "text/mark", "soft/back", "soft/panel", "link/back", "link/panel", "act/back", "on-act/act", "bad/back", "bad/panel",
			"bad/bad-back", "good/good-back",
		} {
			on, under, _ := strings.Cut(pair, "/")
			a, b := max(colors[on], colors[under]), min(colors[on], colors[under])
			assert.GreaterOrEqual(t, (a+0.05)/(b+0.05), 4.5, "%s: %s", name, pair)
		}
	}
	assert.NotContains(t, string(style), "url(", "nothing is loaded")
}
