package main

import (
	stdbase64 "encoding/base64"
	"fmt"
	"io"
	"slices"
	"time"
)

func base64(raw []byte) string { return stdbase64.StdEncoding.EncodeToString(raw) }

// quantile of durations.
func quantile(d []time.Duration, q float64) time.Duration {
	s := slices.Clone(d)
	slices.Sort(s)
	return s[int(q*float64(len(s)-1))]
}

// differences of two arms, round by round.
func differences(a, b []time.Duration) []time.Duration {
	out := make([]time.Duration, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}

func ms(d time.Duration) string { return fmt.Sprintf("%7.2f ms", float64(d)/float64(time.Millisecond)) }

func report(w io.Writer, took map[string][]time.Duration) {
	names := map[string]string{"none": "no webhook", "noop": "no-op webhook", "patch": "webhook returning a patch", "kausality": "kausality (trace written)"}
	fmt.Fprintf(w, "%-28s %10s %10s %10s\n", "", "median", "p90", "p99")
	for _, a := range arms {
		fmt.Fprintf(w, "%-28s %10s %10s %10s\n", names[a], ms(quantile(took[a], 0.5)), ms(quantile(took[a], 0.9)), ms(quantile(took[a], 0.99)))
	}
	fmt.Fprintln(w)
	for _, other := range []string{"noop", "patch"} {
		d := differences(took["kausality"], took[other])
		ratio := float64(quantile(took["kausality"], 0.5)) / float64(quantile(took[other], 0.5))
		fmt.Fprintf(w, "kausality over the %-27s median of differences %s, ratio of medians %.2f\n", names[other]+":", ms(quantile(d, 0.5)), ratio)
	}
}
