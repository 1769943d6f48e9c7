package clock

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// otherwise are files that measure how long something takes, or need the time of this machine, and why.
var otherwise = map[string]string{
	"admission/clock/local.go":    "it is the clock",
	"internal/decider/decider.go": "it measures the latency of decisions",
	"webhook/review/review.go":    "it sets deadlines of connections",
	"webhook/handler.go":          "it measures the latency of decisions",
	"webhook/serving/server.go":   "it sets deadlines of connections",
}

// TestOneClock: what decides, records and reports reads the time here and nowhere else (KR-13-25).
func TestOneClock(t *testing.T) {
	machine := regexp.MustCompile(`\btime\.(Now|Since|Until)\b`)
	root := os.DirFS(filepath.Join("..", ".."))
	read := 0
	for _, dir := range []string{"admission", "fn", "gate", "internal/decider", "internal/drift", "internal/policystore", "webhook"} {
		err := fs.WalkDir(root, dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			raw, err := fs.ReadFile(root, path)
			if err != nil {
				return err
			}
			read++
			if found := machine.FindString(string(raw)); found != "" && otherwise[path] == "" {
				t.Errorf("%s has %s; use package clock", path, found)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read < 100 {
		t.Errorf("%d files were read", read)
	}
}
