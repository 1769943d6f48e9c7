package main

import (
	stdbase64 "encoding/base64"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
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
	names := map[string]string{
		"none": "no webhook", "noop": "no-op webhook", "http2": "the next one, over HTTP/2", "patch": "webhook returning a patch",
		"alike": "that, registered as kausality", "reads": "that, reading both objects",
		"bare": "kausality without its condition", "kausality": "kausality (trace written)",
	}
	fmt.Fprintf(w, "%-32s %10s %10s %10s\n", "", "median", "p90", "p99")
	for _, a := range arms {
		fmt.Fprintf(w, "%-32s %10s %10s %10s\n", names[a], ms(quantile(took[a], 0.5)), ms(quantile(took[a], 0.9)), ms(quantile(took[a], 0.99)))
	}
	fmt.Fprintln(w)
	for _, pair := range [][2]string{{"kausality", "noop"}, {"kausality", "alike"}, {"reads", "alike"}, {"kausality", "reads"},
		{"bare", "patch"}, {"alike", "patch"}, {"kausality", "http2"}, {"kausality", "patch"}} {
		d := differences(took[pair[0]], took[pair[1]])
		ratio := float64(quantile(took[pair[0]], 0.5)) / float64(quantile(took[pair[1]], 0.5))
		fmt.Fprintf(w, "%s over %s: median of differences %s, ratio of medians %.2f\n", names[pair[0]], names[pair[1]],
			strings.TrimSpace(ms(quantile(d, 0.5))), ratio)
	}
}

// aims that figures are printed against.
type aims struct{ missed []string }

// print a figure, against its aim where it has one (0 for none).
func (f *aims) print(what string, figure, aim float64, unit string) {
	line := fmt.Sprintf("%-58s %8.1f %s", what, figure, unit)
	if aim > 0 {
		line += fmt.Sprintf("   (aim: at most %g)", aim)
		if figure > aim {
			line += " MISSED"
			f.missed = append(f.missed, what)
		}
	}
	fmt.Println(strings.TrimRight(line, " "))
}

// err names the aims that were missed; nil for none.
func (f *aims) err() error {
	if len(f.missed) > 0 {
		return fmt.Errorf("the aim is missed: %s", strings.Join(f.missed, ", "))
	}
	return nil
}

// cpuOf a process so far, in the kernel and outside of it: fields 14 and 15 of its stat in /proc, in hundredths of a second.
func cpuOf(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("cannot read the CPU time of a process: %w", err)
	}
	_, rest, _ := strings.Cut(string(raw), ") ") // the second field is a name in parentheses
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("cannot read the CPU time of process %d: %q", pid, raw)
	}
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, fmt.Errorf("cannot read the CPU time of process %d: %w", pid, err)
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, err
}
