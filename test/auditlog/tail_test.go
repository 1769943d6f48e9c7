package auditlog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// TestTail: each line is read once, an incomplete one when it is complete, and one
// that f refuses is not repeated.
func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	tail := NewTail(path)
	require.Error(t, tail.Read(func([]byte) error { return nil }), "there is no file")

	var got []string
	take := func(line []byte) error {
		got = append(got, string(line))
		if string(line) == "bad\n" {
			return errors.New("refused")
		}
		return nil
	}
	for _, step := range []struct {
		reason, appended string
		want             []string
		fails            bool
	}{
		{reason: "an empty log has no lines"},
		{reason: "an incomplete line is not read", appended: "one\ntwo\nthr", want: []string{"one\n", "two\n"}},
		{reason: "it is read when it is complete", appended: "ee\n", want: []string{"three\n"}},
		{reason: "nothing is read twice"},
		{reason: "the error is returned", appended: "bad\nfour\n", want: []string{"bad\n"}, fails: true},
		{reason: "the next line follows", want: []string{"four\n"}},
	} {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = f.WriteString(step.appended)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		got = nil
		if err := tail.Read(take); (err != nil) != step.fails {
			t.Errorf("%s: error %v", step.reason, err)
		}
		if d := cmp.Diff(step.want, got); d != "" {
			t.Errorf("%s: -want, +got:\n%s", step.reason, d)
		}
	}
}

// TestRotated: where another file was begun, the rest of the one before is read first; where several were, that is an error.
func TestRotated(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	add := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = f.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	rotate := func(time string) { require.NoError(t, os.Rename(path, filepath.Join(dir, "audit-"+time+".log"))) }
	var got []string
	tail := NewTail(path)
	read := func() error {
		got = nil
		return tail.Read(func(line []byte) error { got = append(got, string(line)); return nil })
	}
	add("one\n")
	require.NoError(t, read())
	add("two\n")
	rotate("2026-01-01T00-00-00.000")
	require.NoError(t, read(), "the next file does not exist yet")
	require.Equal(t, []string{"two\n"}, got)
	add("three\n")
	require.NoError(t, read())
	require.Equal(t, []string{"three\n"}, got)
	add("four\n")
	rotate("2026-01-01T00-00-01.000")
	add("five\n")
	require.NoError(t, read())
	require.Equal(t, []string{"four\n", "five\n"}, got)
	rotate("2026-01-01T00-00-02.000")
	add("six\n")
	rotate("2026-01-01T00-00-03.000")
	add("seven\n")
	require.ErrorContains(t, read(), "more than once")
	require.NoError(t, os.Remove(filepath.Join(dir, "audit-2026-01-01T00-00-03.000.log")))
	for _, name := range []string{"00", "01", "02"} {
		require.NoError(t, os.Remove(filepath.Join(dir, "audit-2026-01-01T00-00-"+name+".000.log")))
	}
	require.ErrorContains(t, read(), "nothing has what was in it")
}
