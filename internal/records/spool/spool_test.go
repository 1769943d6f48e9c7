package spool

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestMain runs a process that appends for ever, where a test starts one.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SPOOL_WRITER"); dir != "" {
		appendForever(dir)
	}
	os.Exit(m.Run())
}

// appendForever prints the number of each record that is acknowledged, until it is killed or an Append fails.
func appendForever(dir string) {
	if limit, err := strconv.ParseUint(os.Getenv("SPOOL_LIMIT"), 10, 64); err == nil {
		_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}) // the test fails if it has no effect
	}
	s, err := Open(Options{Dir: dir, MaxBytes: 64 << 20})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	begin, _ := strconv.Atoi(os.Getenv("SPOOL_BEGIN"))
	for i := begin; ; i++ {
		if err := s.Append(numbered(i)); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println(i)
	}
}

// numbered record, of a length that depends on its number.
func numbered(i int) []byte { return []byte(fmt.Sprintf("%d %s", i, strings.Repeat("x", i%700))) }

// batch of numbered records.
func batch(from, to int) [][]byte {
	var out [][]byte
	for _, n := range numbers(from, to) {
		out = append(out, numbered(n))
	}
	return out
}

func numberOf(t require.TestingT, record []byte) int {
	text, _, _ := strings.Cut(string(record), " ")
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	require.Equal(t, string(numbered(n)), string(record))
	return n
}

// losses by reader and reason.
type losses struct {
	mu sync.Mutex
	of map[string]uint64
}

func (l *losses) lost(reader string, n uint64, why Loss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]uint64{}
	}
	l.of[reader+"/"+string(why)] += n
}

func (l *losses) get(key string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[key]
}

func open(t require.TestingT, dir string, l *losses, readers ...string) *Spool {
	s, err := Open(Options{Dir: dir, MaxBytes: MinBytes, Lost: l.lost, Readers: readers})
	require.NoError(t, err)
	return s
}

func closing(t require.TestingT, s *Spool) { require.NoError(t, s.Close()) }

func reader(t require.TestingT, s *Spool, name string) *Reader {
	r := s.Reader(name)
	require.NotNil(t, r)
	return r
}

// drain acknowledges what there is, and returns the numbers.
func drain(t require.TestingT, r *Reader, n int) []int {
	var out []int
	for r.Pending() > 0 {
		b, _, err := r.try(n)
		require.NoError(t, err)
		for _, record := range b.Records {
			out = append(out, numberOf(t, record))
		}
		if len(b.Records) == 0 {
			break
		}
		require.NoError(t, r.Ack(b))
	}
	return out
}

func numbers(from, to int) []int {
	var out []int
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

func TestReadersAtTheirOwnPace(t *testing.T) {
	dir, l := t.TempDir(), &losses{}
	s := open(t, dir, l, "slow", "fast")
	slow, fast := reader(t, s, "slow"), reader(t, s, "fast")
	for i := 0; i < 1500; i += 10 {
		require.NoError(t, s.Append(batch(i, i+10)...))
		if i == 700 {
			assert.Equal(t, numbers(0, 710), drain(t, fast, 64))
		}
	}
	assert.Equal(t, uint64(1500), slow.Pending())
	assert.Equal(t, uint64(790), fast.Pending())

	b, err := slow.Next(context.Background(), 10)
	require.NoError(t, err)
	again, err := slow.Next(context.Background(), 10)
	require.NoError(t, err)
	assert.Equal(t, b.Records, again.Records, "what is not acknowledged is read again")
	require.NoError(t, slow.Ack(b))
	require.NoError(t, s.Close())

	s = open(t, dir, l, "slow", "fast")
	assert.Equal(t, numbers(10, 1500), drain(t, reader(t, s, "slow"), 7), "a cursor survives a restart")
	assert.Equal(t, numbers(710, 1500), drain(t, reader(t, s, "fast"), 1000))
	require.NoError(t, s.Append(numbered(1500)))
	assert.Less(t, s.Bytes(), int64(MinBytes/segments*2), "what all readers have is removed")
	assert.Empty(t, l.of)
	require.NoError(t, s.Close())

	s = open(t, dir, l, "slow", "fast", "late")
	defer closing(t, s)
	assert.Equal(t, []int{1500}, drain(t, reader(t, s, "late"), 10), "a new reader begins with the oldest record")
	assert.Equal(t, []int{1500}, drain(t, reader(t, s, "fast"), 10), "the numbers go on although all segments were removed")
	assert.Equal(t, []int{1500}, drain(t, reader(t, s, "slow"), 10))
}

func TestNextWaits(t *testing.T) {
	s := open(t, t.TempDir(), &losses{}, "r")
	r := reader(t, s, "r")
	got := make(chan Batch)
	go func() {
		b, _ := r.Next(context.Background(), 10)
		got <- b
	}()
	require.NoError(t, s.Append(numbered(0), numbered(1)))
	assert.NotEmpty(t, (<-got).Records)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	drain(t, r, 100)
	_, err := r.Next(ctx, 10)
	assert.ErrorIs(t, err, context.Canceled)
	go func() { _ = s.Close() }()
	_, err = r.Next(context.Background(), 10)
	assert.ErrorIs(t, err, ErrClosed)
}

// TestFullSpoolLosesTheOldest covers KR-16-05.
func TestFullSpoolLosesTheOldest(t *testing.T) {
	l := &losses{}
	s := open(t, t.TempDir(), l, "slow")
	defer closing(t, s)
	r := reader(t, s, "slow")
	const n = 10_000
	for i := 0; i < n; i += 20 {
		require.NoError(t, s.Append(batch(i, i+20)...))
		require.LessOrEqual(t, s.Bytes(), int64(MinBytes))
	}
	got := drain(t, r, 100)
	require.NotEmpty(t, got)
	assert.Equal(t, numbers(got[0], n), got, "the newest stay, in their order")
	assert.Equal(t, uint64(got[0]), l.get("slow/SpoolFull"), "what is lost is counted")
	assert.Greater(t, s.MaxBytes, int64(got[0]))
}

func TestFullSpoolWithoutReaders(t *testing.T) {
	dir, l := t.TempDir(), &losses{}
	s := open(t, dir, l)
	for i := 0; i < 10_000; i += 20 {
		require.NoError(t, s.Append(batch(i, i+20)...))
	}
	require.NoError(t, s.Close())
	lost := l.get("/SpoolFull")
	assert.NotZero(t, lost)
	s = open(t, dir, l, "late")
	defer closing(t, s)
	got := drain(t, reader(t, s, "late"), 100)
	assert.Equal(t, numbers(int(lost), 10_000), got)
}

// TestLossWhileAway is that records are counted which the spool lost while a reader was not configured.
func TestLossWhileAway(t *testing.T) {
	dir, l := t.TempDir(), &losses{}
	s := open(t, dir, l, "r")
	r := reader(t, s, "r")
	require.NoError(t, s.Append(numbered(0), numbered(1)))
	drain(t, r, 1)
	require.NoError(t, s.Close())
	s = open(t, dir, l)
	for i := 2; i < 10_000; i += 34 {
		require.NoError(t, s.Append(batch(i, i+34)...))
	}
	require.NoError(t, s.Close())
	s = open(t, dir, l, "r")
	got := drain(t, reader(t, s, "r"), 100)
	assert.Equal(t, uint64(got[0]-2), l.get("r/SpoolFull"))
	require.NoError(t, s.Close())
}

// TestTornTail is that a segment which ends anywhere is read up to its last whole record.
func TestTornTail(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		require.NoError(rt, err)
		l := &losses{}
		s := open(rt, dir, l)
		n := rapid.IntRange(1, 20).Draw(rt, "records")
		for i := range n {
			require.NoError(rt, s.Append(numbered(i)))
		}
		require.NoError(rt, s.Close())
		path := fileOf(dir, 0)
		info, err := os.Stat(path)
		require.NoError(rt, err)
		size := rapid.Int64Range(0, info.Size()).Draw(rt, "size")
		require.NoError(rt, os.Truncate(path, size))
		whole, at := 0, int64(len(magic))
		for whole < n && at+int64(header+len(numbered(whole))) <= size {
			at += int64(header + len(numbered(whole)))
			whole++
		}

		s = open(rt, dir, l, "r")
		r := reader(rt, s, "r")
		require.NoError(rt, s.Append(numbered(n)))
		assert.Equal(rt, append(numbers(0, whole), n), drain(rt, r, 3))
		assert.Empty(rt, l.of, "a torn tail was never acknowledged")
		require.NoError(rt, s.Close())
	})
}

// TestKilledBeforeTheFirstRecord is that a segment that was created and not written is not deleted as read while it is written (KR-16-04).
func TestKilledBeforeTheFirstRecord(t *testing.T) {
	dir := t.TempDir()
	l := &losses{}
	s := open(t, dir, l, "r")
	require.NoError(t, s.Append(numbered(0)))
	require.NoError(t, s.Close())
	require.NoError(t, os.WriteFile(fileOf(dir, 1), []byte(magic), 0o600)) // as create has left it
	s = open(t, dir, l, "r")
	defer closing(t, s)
	require.NoError(t, s.Append(numbered(1)))
	r := reader(t, s, "r")
	require.Equal(t, numbers(0, 2), drain(t, r, 1))
	require.NoError(t, s.Append(numbered(2)))
	require.NoError(t, s.Append(numbered(3)))
	assert.Equal(t, numbers(2, 4), drain(t, r, 1))
	assert.Empty(t, l.of)
	assert.FileExists(t, s.segments[len(s.segments)-1].path)
}

// TestDamage is that a reader goes on behind what was changed on disk, and that what is lost is counted.
func TestDamage(t *testing.T) {
	dir, l := t.TempDir(), &losses{}
	s := open(t, dir, l)
	for i := 0; i < 1000; i += 10 {
		require.NoError(t, s.Append(batch(i, i+10)...))
	}
	require.Greater(t, len(s.segments), 3)
	second, third := s.segments[1], s.segments[2]
	require.NoError(t, s.Close())
	raw, err := os.ReadFile(second.path)
	require.NoError(t, err)
	raw[len(raw)/2] ^= 1
	require.NoError(t, os.WriteFile(second.path, raw, 0o600))
	require.NoError(t, os.Remove(third.path))

	s = open(t, dir, l, "r")
	defer closing(t, s)
	got := drain(t, reader(t, s, "r"), 10)
	assert.Equal(t, 0, got[0])
	assert.Equal(t, 999, got[len(got)-1])
	assert.Equal(t, uint64(1000-len(got)), l.get("r/Damaged"))
	assert.Less(t, len(got), 1000)
}

func TestUnreadableCursor(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &losses{})
	require.NoError(t, s.Append(numbered(0)))
	require.NoError(t, s.Close())
	for name, content := range map[string]string{"Empty": "", "Garbage": "\x00\x00", "Future": `{"next":99999}`} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, cursors, "r"), []byte(content), 0o600))
			s := open(t, dir, &losses{}, "r")
			defer closing(t, s)
			b, _, err := reader(t, s, "r").try(10)
			require.NoError(t, err)
			assert.Len(t, b.Records, 1, "records are read again")
		})
	}
}

func TestFailedWrite(t *testing.T) {
	dir, l := t.TempDir(), &losses{}
	s := open(t, dir, l, "r")
	r := reader(t, s, "r")
	require.NoError(t, s.Append(numbered(0)))
	readOnly, err := os.Open(s.segments[0].path)
	require.NoError(t, err)
	require.NoError(t, s.file.Close())
	s.file = readOnly
	require.Error(t, s.Append(numbered(1)))
	require.NoError(t, s.Append(numbered(1)), "the same may be appended again")
	assert.Equal(t, []int{0, 1}, drain(t, r, 10))
	require.NoError(t, s.Close())
}

// TestUntruncatedTail is that records which a failed Append has left behind are not read for those after it.
func TestUntruncatedTail(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &losses{})
	require.NoError(t, s.Append(numbered(0), numbered(1)))
	require.NoError(t, s.file.Close())
	s.file = nil // as after an error
	require.NoError(t, s.Append(numbered(2), numbered(3)))
	first := s.segments[0].path
	require.NoError(t, s.Close())
	f, err := os.OpenFile(first, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = f.Write(frame(frame(nil, numbered(7)), numbered(8)))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	s = open(t, dir, &losses{}, "r")
	defer closing(t, s)
	assert.Equal(t, []int{0, 1, 2, 3}, drain(t, reader(t, s, "r"), 10))
}

func TestOneProcess(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &losses{})
	_, err := Open(Options{Dir: dir, MaxBytes: MinBytes})
	assert.ErrorContains(t, err, "another process uses")
	require.NoError(t, s.Close())
	s = open(t, dir, &losses{})
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Append(numbered(0)), ErrClosed)
	for _, readers := range [][]string{{""}, {"a/b"}, {".begin"}, {"a", "a"}} {
		_, err = Open(Options{Dir: dir, MaxBytes: MinBytes, Readers: readers})
		assert.Error(t, err)
	}
	_, err = Open(Options{Dir: dir, MaxBytes: 10})
	assert.Error(t, err)
}

func TestTooLarge(t *testing.T) {
	s := open(t, t.TempDir(), &losses{})
	defer closing(t, s)
	assert.Error(t, s.Append(make([]byte, MaxRecord+1)))
	assert.NoError(t, s.Append(make([]byte, MaxRecord)))
}

// writer process on a directory; acknowledged gets the numbers that it prints.
func writer(t *testing.T, dir string, begin int, env ...string) (cmd *exec.Cmd, out *bufio.Scanner) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd = exec.Command(self)
	cmd.Env = append(os.Environ(), append(env, "SPOOL_WRITER="+dir, "SPOOL_BEGIN="+strconv.Itoa(begin))...)
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return cmd, bufio.NewScanner(pipe)
}

// TestKilled covers KR-16-04: a process which is killed at any point loses nothing that was acknowledged.
func TestKilled(t *testing.T) {
	dir, acknowledged, seen := t.TempDir(), -1, map[int]bool{}
	for round := range 5 {
		cmd, out := writer(t, dir, acknowledged+1)
		enough := acknowledged + 50 + 37*round
		for out.Scan() {
			n, err := strconv.Atoi(out.Text())
			require.NoError(t, err, out.Text())
			acknowledged = n
			if n == enough {
				require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
			}
		}
		require.Error(t, cmd.Wait(), "it was killed")
		require.GreaterOrEqual(t, acknowledged, enough)

		l := &losses{}
		s, err := Open(Options{Dir: dir, MaxBytes: 64 << 20, Lost: l.lost, Readers: []string{"r"}})
		require.NoError(t, err)
		for _, n := range drain(t, reader(t, s, "r"), 100) {
			seen[n] = true
		}
		assert.Empty(t, l.of)
		for i := range acknowledged + 1 {
			require.True(t, seen[i], "record %d was acknowledged", i)
		}
		require.NoError(t, s.Close())
	}
}

// TestDiskFull is that a file system which takes no more bytes fails an Append and nothing else: what was acknowledged is read, and
// the same process could go on once there is room.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	cmd, out := writer(t, dir, 0, "SPOOL_LIMIT=20000")
	acknowledged, failed := -1, false
	for out.Scan() {
		if strings.HasPrefix(out.Text(), "error ") {
			failed = true
			assert.Contains(t, out.Text(), "cannot write records")
			break
		}
		n, err := strconv.Atoi(out.Text())
		require.NoError(t, err)
		acknowledged = n
	}
	require.Error(t, cmd.Wait())
	require.True(t, failed)
	require.Positive(t, acknowledged)
	s := open(t, dir, &losses{}, "r")
	defer closing(t, s)
	assert.Equal(t, numbers(0, acknowledged+1), drain(t, reader(t, s, "r"), 100))
}

// TestConcurrent is that readers and writers do not get in each other's way.
func TestConcurrent(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir(), MaxBytes: 8 << 20, Readers: []string{"a", "b"}})
	require.NoError(t, err)
	defer closing(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const n = 500
	var all sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		r := reader(t, s, name)
		all.Go(func() {
			seen := map[int]bool{}
			for len(seen) < n {
				b, err := r.Next(ctx, 9)
				if !assert.NoError(t, err) {
					return
				}
				for _, record := range b.Records {
					seen[numberOf(t, record)] = true
				}
				if !assert.NoError(t, r.Ack(b)) {
					return
				}
			}
		})
	}
	for w := range 5 {
		all.Go(func() {
			for i := range n / 5 {
				assert.NoError(t, s.Append(numbered(w*n/5+i)))
			}
		})
	}
	all.Wait()
}

// FuzzScan is that any file is read, or is damaged.
func FuzzScan(f *testing.F) {
	f.Add([]byte(magic))
	f.Add(frame(frame([]byte(magic), []byte("one")), []byte("two")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := fileOf(t.TempDir(), 0)
		require.NoError(t, os.WriteFile(path, raw, 0o600))
		s, damaged, err := scan(path, 0)
		require.NoError(t, err)
		records, _, err := read(s, 0, 1<<20, place{})
		require.NoError(t, err)
		assert.Len(t, records, int(s.end))
		assert.True(t, damaged || s.size == int64(len(raw)))
	})
}
