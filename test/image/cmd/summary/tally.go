package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// tallyFile names the environment variable with the file that test appends
// its outcomes to, a JSON object per line.
const tallyFile = "SUMMARY_TALLY"

// tally of tests.
type tally struct {
	Passed  int      `json:"passed"`
	Failed  []string `json:"failed,omitempty"`
	Skipped []skip   `json:"skipped,omitempty"`
	Flaky   []flake  `json:"flaky,omitempty"`
	// Seconds that each package took.
	Seconds map[string]float64 `json:"seconds,omitempty"`
}

type skip struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

func (t *tally) add(o tally) {
	t.Passed += o.Passed
	t.Failed = append(t.Failed, o.Failed...)
	t.Skipped = append(t.Skipped, o.Skipped...)
	t.Flaky = append(t.Flaky, o.Flaky...)
	if t.Seconds == nil && len(o.Seconds) > 0 {
		t.Seconds = map[string]float64{}
	}
	maps.Copy(t.Seconds, o.Seconds)
}

func (t *tally) empty() bool { return t.Passed+len(t.Failed)+len(t.Skipped) == 0 }

func (t *tally) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", t.Passed, len(t.Failed), len(t.Skipped))
}

// details names what failed, was flaky, was slow and was skipped, in a line each.
func (t *tally) details(known record) string {
	var b strings.Builder
	for _, name := range t.Failed {
		_, _ = fmt.Fprintln(&b, "failed:", name)
	}
	for _, f := range t.Flaky {
		_, _ = fmt.Fprintf(&b, "flaky: %s: failed, and passed when it was repeated\n", f)
	}
	for _, line := range known.compare(t.Seconds) {
		_, _ = fmt.Fprintln(&b, "slow:", line)
	}
	for _, s := range t.Skipped {
		_, _ = fmt.Fprintf(&b, "skipped: %s: %s\n", s.Name, s.Why)
	}
	return b.String()
}

// save appends the tally to a file; "" saves nothing.
func (t *tally) save(path string) error {
	if path == "" {
		return nil
	}
	raw, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("cannot save the outcomes: %w", err)
	}
	return appendTo(path, string(raw)+"\n")
}

// appendTo a file, which is created with its directory as needed.
func appendTo(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("cannot save the outcomes: %w", err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot save the outcomes: %w", err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot save the outcomes: %w", err)
	}
	return nil
}

// loadTally adds up what a file holds; a missing one holds nothing.
func loadTally(path string) (tally, error) {
	var sum tally
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return sum, nil
	}
	if err != nil {
		return sum, fmt.Errorf("cannot read the outcomes: %w", err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var t tally
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return sum, fmt.Errorf("cannot read the outcomes: %w", err)
		}
		sum.add(t)
	}
	return sum, lines.Err()
}
