// Package records tests the way of records from a Recorder over the spool into real receivers: a NATS server with JetStream, an
// HTTP server and a collector of OTLP logs.
package records

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	recordsv1alpha1 "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/records"
	"github.com/kausality-io/function-kausality/internal/records/sink"
	"github.com/kausality-io/function-kausality/internal/records/spool"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

var cluster = recordsv1alpha1.Cluster{Name: "prod", UID: "7f0c1d7e"}

// TestMain runs a recording process, where a test starts one.
func TestMain(m *testing.M) {
	if dir := os.Getenv("RECORDS_DIR"); dir != "" {
		recordForever(dir, os.Getenv("RECORDS_SINK"))
	}
	os.Exit(m.Run())
}

// numbered occurrence.
type numbered int

func (n numbered) Records(c recordsv1alpha1.Cluster) []recordsv1alpha1.Record {
	r := recordsv1alpha1.Record{
		Type: recordsv1alpha1.TypeIntent, Time: metav1.NewMicroTime(time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)), Cluster: c,
		Object: recordsv1alpha1.Object{APIVersion: "example.org/v1", Kind: "Part", Namespace: "shop", Name: fmt.Sprint(int(n))},
	}
	r.ID = recordsv1alpha1.ID(c, r.Object, r.Type, r.Time.Time)
	return []recordsv1alpha1.Record{r}
}

// A pipeline from a Recorder to a sink.
type pipeline struct {
	recorder *records.Recorder
	spool    *spool.Spool
	reader   *spool.Reader
	stop     func()
}

func start(dir, to string) (*pipeline, error) {
	c, err := sink.Parse(to)
	if err != nil {
		return nil, err
	}
	s, err := sink.New(c)
	if err != nil {
		return nil, err
	}
	q, err := spool.Open(spool.Options{Dir: dir, MaxBytes: 8 << 20, Readers: []string{c.Name()}})
	if err != nil {
		return nil, err
	}
	aside, err := sink.NewAside(filepath.Join(dir, "aside"), c.Name())
	if err != nil {
		return nil, err
	}
	d := &sink.Delivery{Name: c.Name(), Reader: q.Reader(c.Name()), Sink: s, Aside: aside, Log: logr.Discard()}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); d.Run(ctx) }()
	r := records.New(q, func(context.Context) (recordsv1alpha1.Cluster, error) { return cluster, nil }, logr.Discard())
	return &pipeline{recorder: r, spool: q, reader: d.Reader, stop: func() {
		r.Close()
		cancel()
		<-done
		_ = q.Close()
	}}, nil
}

func started(t *testing.T, dir, to string) *pipeline {
	t.Helper()
	p, err := start(dir, to)
	require.NoError(t, err)
	var once sync.Once
	stop := p.stop
	p.stop = func() { once.Do(stop) }
	t.Cleanup(p.stop)
	return p
}

// natsServer with JetStream on a port and a directory; 0 for any port.
func natsServer(t *testing.T, port int, dir string) *server.Server {
	t.Helper()
	if port == 0 {
		port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(30*time.Second))
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// stream of records on a server, with the names of the objects that it has.
func stream(t *testing.T, s *server.Server, config jetstream.StreamConfig) (names func() []string) {
	t.Helper()
	conn, err := nats.Connect(s.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	config.Name, config.Subjects = "RECORDS", []string{"kausality.>"}
	_, err = js.CreateOrUpdateStream(context.Background(), config)
	require.NoError(t, err)
	return func() []string {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		st, err := js.Stream(ctx, "RECORDS")
		if err != nil {
			return nil
		}
		info, err := st.Info(ctx)
		if err != nil {
			return nil
		}
		var out []string
		for seq := info.State.FirstSeq; seq <= info.State.LastSeq && info.State.Msgs > 0; seq++ {
			m, err := st.GetMsg(ctx, seq)
			if err != nil {
				return nil
			}
			r, err := recordsv1alpha1.Decode(m.Data)
			require.NoError(t, err)
			assert.Equal(t, r.ID, m.Header.Get("Nats-Msg-Id"))
			assert.Equal(t, "kausality.7f0c1d7e.Intent", m.Subject)
			out = append(out, r.Object.Name)
		}
		return out
	}
}

func numbers(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

func add(p *pipeline, from, to int) {
	for i := from; i < to; i++ {
		p.recorder.Add(numbered(i))
	}
}

// TestJetStreamOutage covers KR-16-06: a server that is away, and restarts with what it had stored, gets each record, and the stream has
// it once.
func TestJetStreamOutage(t *testing.T) {
	store := t.TempDir()
	s := natsServer(t, 0, store)
	port, err := strconv.Atoi(s.ClientURL()[strings.LastIndexByte(s.ClientURL(), ':')+1:])
	require.NoError(t, err)
	names := stream(t, s, jetstream.StreamConfig{Storage: jetstream.FileStorage})
	p := started(t, t.TempDir(), "nats="+s.ClientURL()+",plain=true")
	add(p, 0, 100)
	wait.For(t, "the first records", time.Minute, func(context.Context) error { return expect(names(), numbers(0, 100)) })

	s.Shutdown()
	s.WaitForShutdown()
	add(p, 100, 300)
	natsServer(t, port, store)
	wait.For(t, "the records of the outage", time.Minute, func(context.Context) error { return expect(names(), numbers(0, 300)) })
	assert.Zero(t, p.reader.Pending())
}

// TestJetStreamTooLarge covers KR-16-07: a stream that takes no record of a size costs no other.
func TestJetStreamTooLarge(t *testing.T) {
	s := natsServer(t, 0, t.TempDir())
	names := stream(t, s, jetstream.StreamConfig{MaxMsgSize: 1000})
	dir := t.TempDir()
	p := started(t, dir, "nats="+s.ClientURL()+",plain=true")
	add(p, 0, 3)
	p.recorder.Add(large{})
	add(p, 3, 6)
	wait.For(t, "the small records", time.Minute, func(context.Context) error { return expect(names(), numbers(0, 6)) })
	wait.For(t, "the large one is set aside", time.Minute, func(context.Context) error {
		files, err := filepath.Glob(filepath.Join(dir, "aside", "*.jsonl"))
		if err != nil || len(files) != 1 {
			return fmt.Errorf("%d files: %w", len(files), err)
		}
		return nil
	})
}

// large record.
type large struct{}

func (large) Records(c recordsv1alpha1.Cluster) []recordsv1alpha1.Record {
	r := numbered(99).Records(c)
	for i := range 32 {
		r[0].Paths = append(r[0].Paths, fmt.Sprintf("spec.forProvider.settings[%d].aLongNameOfAField", i))
	}
	return r
}

// expect names in their order.
func expect(got, want []string) error {
	if strings.Join(got, " ") != strings.Join(want, " ") {
		return fmt.Errorf("%d records, want %d", len(got), len(want))
	}
	return nil
}

// receiver of CloudEvents that counts each record. A request that ends early, as its sender was killed, has none.
func receiver(t *testing.T, status func(n int) int) (url string, seen func() map[string]int) {
	var mu sync.Mutex
	got, n := map[string]int{}, 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		n++
		code := status(n)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		var events []sink.Event
		if err := json.Unmarshal(body, &events); err != nil {
			t.Error(err)
		}
		for _, e := range events {
			record, err := recordsv1alpha1.Decode(e.Data)
			if err != nil || record.ID != e.ID {
				t.Errorf("record %q: %v", e.ID, err)
			}
			if code == http.StatusOK {
				got[record.Object.Name]++
			}
		}
		w.WriteHeader(code)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		out := map[string]int{}
		for k, v := range got {
			out[k] = v
		}
		return out
	}
}

// recordForever prints the number of records that are on disk, until the process is killed.
func recordForever(dir, to string) {
	p, err := start(dir, to)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	begin, _ := strconv.Atoi(os.Getenv("RECORDS_BEGIN"))
	for i := begin; ; i++ {
		if err := p.spool.Append(encoded(i)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(i)
	}
}

func encoded(n int) []byte {
	raw, err := recordsv1alpha1.Encode(numbered(n).Records(cluster)[0])
	if err != nil {
		panic(err)
	}
	return raw
}

// TestKilledWhileDelivering covers KR-16-04 and KR-16-06: a process that is killed at any point, while records are written and delivered,
// loses none that was acknowledged.
func TestKilledWhileDelivering(t *testing.T) {
	url, seen := receiver(t, func(n int) int {
		if n%3 == 0 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	dir, to, acknowledged := t.TempDir(), "cloudevents="+url+",plain=true", -1
	self, err := os.Executable()
	require.NoError(t, err)
	for round := range 4 {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), "RECORDS_DIR="+dir, "RECORDS_SINK="+to, "RECORDS_BEGIN="+strconv.Itoa(acknowledged+1))
		pipe, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		enough := acknowledged + 60 + 31*round
		for out := bufio.NewScanner(pipe); out.Scan(); {
			n, err := strconv.Atoi(out.Text())
			require.NoError(t, err, out.Text())
			if acknowledged = n; n == enough {
				require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
			}
		}
		require.Error(t, cmd.Wait())
	}
	p := started(t, dir, to)
	wait.For(t, "all records", time.Minute, func(context.Context) error {
		if n := p.reader.Pending(); n > 0 {
			return fmt.Errorf("%d are pending", n)
		}
		return nil
	})
	got := seen()
	for i := range acknowledged + 1 {
		require.Positive(t, got[strconv.Itoa(i)], "record %d was acknowledged", i)
	}
}

// TestFullSpoolCountsLosses covers KR-16-05 and KR-16-03: a sink that is away for longer than the spool is large gets the newest
// records, and the process that adds them is never delayed.
func TestFullSpoolCountsLosses(t *testing.T) {
	var mu sync.Mutex
	var lost uint64
	dir := t.TempDir()
	q, err := spool.Open(spool.Options{Dir: dir, MaxBytes: spool.MinBytes, Readers: []string{"away"}, Lost: func(_ string, n uint64, why spool.Loss) {
		mu.Lock()
		defer mu.Unlock()
		if why == spool.LossFull {
			lost += n
		}
	}})
	require.NoError(t, err)
	r := records.New(q, func(context.Context) (recordsv1alpha1.Cluster, error) { return cluster, nil }, logr.Discard())
	const n = 6000
	for i := range n {
		if i%2000 == 1999 { // the queue is smaller than that
			require.NoError(t, settle(t, q))
		}
		r.Add(numbered(i))
	}
	r.Close()
	var got int
	for reader := q.Reader("away"); reader.Pending() > 0; {
		b, err := reader.Next(context.Background(), 500)
		require.NoError(t, err)
		got += len(b.Records)
		require.NoError(t, reader.Ack(b))
	}
	require.NoError(t, q.Close())
	mu.Lock()
	defer mu.Unlock()
	assert.Positive(t, lost)
	assert.Equal(t, uint64(n), lost+uint64(got), "each record is delivered or counted")
}

// settle until the spool does not grow.
func settle(t *testing.T, q *spool.Spool) error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		before := q.Reader("away").Pending()
		wait.Pause(t, 100*time.Millisecond)
		if q.Reader("away").Pending() == before {
			return nil
		}
	}
	return errors.New("the spool still grows")
}

// TestSameIDEverywhere covers KR-16-01 and KR-16-02: two replicas that see the same occurrence deliver the same bytes, and a stream has one.
func TestSameIDEverywhere(t *testing.T) {
	s := natsServer(t, 0, t.TempDir())
	names := stream(t, s, jetstream.StreamConfig{Duplicates: time.Hour})
	for range 2 {
		p := started(t, t.TempDir(), "nats="+s.ClientURL()+",plain=true")
		add(p, 0, 50)
		p.recorder.Close()
		wait.For(t, "all records", time.Minute, func(context.Context) error {
			if n := p.reader.Pending(); n > 0 {
				return fmt.Errorf("%d are pending", n)
			}
			return nil
		})
	}
	assert.Equal(t, numbers(0, 50), names())
}
