package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// tallyFile names the environment variable with the file that gotest appends
// its outcomes to, a JSON object per line.
const tallyFile = "SUMMARY_TALLY"

// tally of tests.
type tally struct {
	Passed  int      `json:"passed"`
	Failed  []string `json:"failed,omitempty"`
	Skipped []skip   `json:"skipped,omitempty"`
}

type skip struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

func (t *tally) add(o tally) {
	t.Passed += o.Passed
	t.Failed = append(t.Failed, o.Failed...)
	t.Skipped = append(t.Skipped, o.Skipped...)
}

func (t *tally) empty() bool { return t.Passed+len(t.Failed)+len(t.Skipped) == 0 }

func (t *tally) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", t.Passed, len(t.Failed), len(t.Skipped))
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
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot save the outcomes: %w", err)
	}
	_, err = f.Write(append(raw, '\n'))
	return errors.Join(err, f.Close())
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
