package sink

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	recordsv1alpha1 "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/await"
	"github.com/kausality-io/function-kausality/internal/records/spool"
)

var start = time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)

// message of a number.
func message(t require.TestingT, n int) Message {
	r := recordsv1alpha1.Record{
		Type: recordsv1alpha1.TypeIntent, Time: metav1.NewMicroTime(start.Add(time.Duration(n) * time.Second)),
		Cluster: recordsv1alpha1.Cluster{Name: "prod", UID: "cluster-uid"}, Actor: &recordsv1alpha1.Actor{User: "anna"},
		Object: recordsv1alpha1.Object{APIVersion: "example.org/v1", Kind: "Part", Namespace: "shop", Name: fmt.Sprintf("part-%d", n)},
	}
	r.ID = recordsv1alpha1.ID(r.Cluster, r.Object, r.Type, r.Time.Time)
	raw, err := recordsv1alpha1.Encode(r)
	require.NoError(t, err)
	r, err = recordsv1alpha1.Decode(raw)
	require.NoError(t, err)
	return Message{Raw: raw, Record: r}
}

// receiver of batches: it answers what answer returns for their names, and keeps the names of those that it answers with 200.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []string
	calls  int
	header http.Header
	events []Event
}

func receive(t *testing.T, answer func(call int, names []string) int) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var events []Event
		if err := json.NewDecoder(req.Body).Decode(&events); err != nil {
			t.Error(err)
		}
		var names []string
		for _, e := range events {
			names = append(names, e.Subject[strings.LastIndexByte(e.Subject, '/')+1:])
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls++
		code := answer(r.calls, names)
		if code == http.StatusOK {
			r.got, r.header, r.events = append(r.got, names...), req.Header, events
		}
		w.WriteHeader(code)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) received() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.got...)
}

// configured sink.
func configured(t *testing.T, text string) (Config, Sink) {
	t.Helper()
	c, err := Parse(text)
	require.NoError(t, err)
	s, err := New(c)
	require.NoError(t, err)
	return c, s
}

// running delivery of n records into a sink. stop ends it.
func running(t *testing.T, dir string, s Sink, records ...[]byte) (d *Delivery, stop func()) {
	t.Helper()
	queue, err := spool.Open(spool.Options{Dir: dir, MaxBytes: spool.MinBytes, Readers: []string{"test"}})
	require.NoError(t, err)
	require.NoError(t, queue.Append(records...))
	aside, err := NewAside(filepath.Join(dir, "aside"), "test")
	require.NoError(t, err)
	d = &Delivery{Name: "test", Reader: queue.Reader("test"), Sink: s, Aside: aside, Log: testr.New(t),
		pauses: &wait.Backoff{Duration: time.Millisecond, Factor: 2, Steps: 100, Cap: 20 * time.Millisecond}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); d.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			<-done
			assert.NoError(t, queue.Close())
		})
	}
	t.Cleanup(stop)
	return d, stop
}

func raw(t *testing.T, n int) [][]byte {
	var out [][]byte
	for i := range n {
		out = append(out, message(t, i).Raw)
	}
	return out
}

func TestCloudEvents(t *testing.T) {
	r := receive(t, func(int, []string) int { return http.StatusOK })
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	_, s := configured(t, "cloudevents="+r.URL+"/in,plain=true,token-file="+token)
	require.NoError(t, s.Send(context.Background(), []Message{message(t, 0), message(t, 1)}))
	assert.Equal(t, "application/cloudevents-batch+json", r.header.Get("Content-Type"))
	assert.Equal(t, "Bearer secret", r.header.Get("Authorization"))
	require.Len(t, r.events, 2)
	m := message(t, 1)
	assert.Equal(t, Event{
		SpecVersion: "1.0", ID: m.Record.ID, Source: "/kausality/cluster-uid", Type: "io.kausality.record.v1alpha1.Intent",
		Subject: "example.org/v1/Part/shop/part-1", Time: "2026-11-24T09:00:01.000000Z", DataContentType: "application/json", Data: m.Raw,
	}, r.events[1])
	require.NoError(t, os.WriteFile(token, []byte("newer"), 0o600))
	require.NoError(t, s.Send(context.Background(), []Message{message(t, 0)}))
	assert.Equal(t, "Bearer newer", r.header.Get("Authorization"), "the token is read again")
	require.NoError(t, s.Close())
}

func TestStatus(t *testing.T) {
	for code, refuses := range map[int]bool{
		200: false, 204: false, 302: false, 400: true, 401: false, 403: false, 404: false, 408: false, 413: true, 422: true, 429: false, 500: false, 503: false,
	} {
		r := receive(t, func(int, []string) int { return code })
		_, s := configured(t, "cloudevents="+r.URL+",plain=true")
		err := s.Send(context.Background(), []Message{message(t, 0)})
		assert.Equal(t, code >= 300, err != nil, code)
		assert.Equal(t, refuses, refused(err), code)
		if err != nil {
			assert.NotContains(t, err.Error(), r.URL, "the URL may be a secret")
		}
	}
	_, s := configured(t, "cloudevents=http://127.0.0.1:1/secret,plain=true")
	err := s.Send(context.Background(), []Message{message(t, 0)})
	require.Error(t, err)
	assert.False(t, refused(err))
	assert.NotContains(t, err.Error(), "secret")
}

// TestRefusedRecord covers KR-16-07: one record which a sink refuses for ever costs no other.
func TestRefusedRecord(t *testing.T) {
	bad := map[string]bool{"part-3": true, "part-8": true}
	r := receive(t, func(_ int, names []string) int {
		for _, n := range names {
			if bad[n] {
				return http.StatusBadRequest
			}
		}
		return http.StatusOK
	})
	_, s := configured(t, "cloudevents="+r.URL+",plain=true")
	d, stop := running(t, t.TempDir(), s, raw(t, 10)...)
	await.Poll(t, "all records to be delivered", func() bool { return d.Reader.Pending() == 0 })
	stop()
	assert.Equal(t, []string{"part-0", "part-1", "part-2", "part-4", "part-5", "part-6", "part-7", "part-9"}, r.received())
	content, err := os.ReadFile(d.Aside.Path())
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	require.Len(t, lines, 2)
	var line struct {
		Error  string
		Record recordsv1alpha1.Record
	}
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &line))
	assert.Equal(t, "part-8", line.Record.Object.Name)
	assert.Contains(t, line.Error, "400")
}

// TestAlwaysRefusing is that a sink which answers 400 to everything does not stop the delivery.
func TestAlwaysRefusing(t *testing.T) {
	r := receive(t, func(int, []string) int { return http.StatusBadRequest })
	_, s := configured(t, "cloudevents="+r.URL+",plain=true")
	d, _ := running(t, t.TempDir(), s, raw(t, 300)...)
	await.Poll(t, "all records to be delivered", func() bool { return d.Reader.Pending() == 0 })
	assert.Empty(t, r.received())
	content, err := os.ReadFile(d.Aside.Path())
	require.NoError(t, err)
	assert.Equal(t, 300, bytes.Count(content, []byte("\n")))
}

// TestOutage covers KR-16-06: a sink which is away gets everything once it is back, also after a restart.
func TestOutage(t *testing.T) {
	up := false
	var mu sync.Mutex
	r := receive(t, func(int, []string) int {
		mu.Lock()
		defer mu.Unlock()
		if up {
			return http.StatusOK
		}
		return http.StatusServiceUnavailable
	})
	dir := t.TempDir()
	_, s := configured(t, "cloudevents="+r.URL+",plain=true")
	_, stop := running(t, dir, s, raw(t, 5)...)
	await.Poll(t, "four calls", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.calls > 3 })
	stop()
	mu.Lock()
	up = true
	mu.Unlock()
	_, s = configured(t, "cloudevents="+r.URL+",plain=true")
	d, _ := running(t, dir, s, message(t, 5).Raw)
	await.Poll(t, "all records to be delivered", func() bool { return d.Reader.Pending() == 0 })
	assert.Equal(t, []string{"part-0", "part-1", "part-2", "part-3", "part-4", "part-5"}, r.received())
}

// TestSchemaFromTomorrow is that what a later release left in the spool is set aside, and the rest is delivered.
func TestSchemaFromTomorrow(t *testing.T) {
	r := receive(t, func(int, []string) int { return http.StatusOK })
	_, s := configured(t, "cloudevents="+r.URL+",plain=true")
	d, stop := running(t, t.TempDir(), s, []byte(`{"schema":"v9","id":"x"}`), message(t, 1).Raw, []byte("\xff"))
	await.Poll(t, "all records to be delivered", func() bool { return d.Reader.Pending() == 0 })
	stop()
	assert.Equal(t, []string{"part-1"}, r.received())
	content, err := os.ReadFile(d.Aside.Path())
	require.NoError(t, err)
	assert.Equal(t, 2, bytes.Count(content, []byte("\n")))
	assert.Contains(t, string(content), `"schema":"v9"`)
}

func TestAsideIsBounded(t *testing.T) {
	dir := t.TempDir()
	a, err := NewAside(dir, "x")
	require.NoError(t, err)
	a.limit = 1000
	for i := range 100 {
		require.NoError(t, a.Add(message(t, i).Raw, errors.New("because")))
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	content, err := os.ReadFile(a.Path())
	require.NoError(t, err)
	assert.LessOrEqual(t, len(content), 1000)
	assert.Contains(t, string(content), "part-99", "the newest are kept")
}

// otlpReceiver decodes requests as a collector does.
func otlpReceiver(t *testing.T, reject func(*logspb.LogRecord) bool, status func() int) (url string, got func() []*logspb.LogRecord) {
	var mu sync.Mutex
	var records []*logspb.LogRecord
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/v1/logs", r.URL.Path)
		body, err := gzip.NewReader(r.Body)
		if !assert.NoError(t, err) {
			return
		}
		content, err := io.ReadAll(body)
		assert.NoError(t, err)
		req := &collogspb.ExportLogsServiceRequest{}
		assert.NoError(t, proto.Unmarshal(content, req))
		if code := status(); code != http.StatusOK {
			w.WriteHeader(code)
			return
		}
		resp := &collogspb.ExportLogsServiceResponse{PartialSuccess: &collogspb.ExportLogsPartialSuccess{}}
		mu.Lock()
		defer mu.Unlock()
		for _, rl := range req.ResourceLogs {
			for _, sl := range rl.ScopeLogs {
				for _, l := range sl.LogRecords {
					if reject(l) {
						resp.PartialSuccess.RejectedLogRecords++
						continue
					}
					records = append(records, l)
				}
			}
		}
		raw, err := proto.Marshal(resp)
		assert.NoError(t, err)
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(raw)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []*logspb.LogRecord {
		mu.Lock()
		defer mu.Unlock()
		return append([]*logspb.LogRecord{}, records...)
	}
}

func never(*logspb.LogRecord) bool { return false }

func TestOTLP(t *testing.T) {
	url, got := otlpReceiver(t, never, func() int { return http.StatusOK })
	_, s := configured(t, "otlp="+url+",plain=true")
	require.NoError(t, s.Send(context.Background(), []Message{message(t, 0), message(t, 1)}))
	require.NoError(t, s.Send(context.Background(), []Message{message(t, 2)}))
	require.Len(t, got(), 3, "a batch has no record of the one before")
	m, l := message(t, 1), got()[1]
	assert.Equal(t, string(m.Raw), l.Body.GetStringValue())
	assert.Equal(t, "io.kausality.record.v1alpha1.Intent", l.EventName)
	assert.Equal(t, uint64(m.Record.Time.UnixNano()), l.TimeUnixNano)
	attributes := map[string]string{}
	for _, a := range l.Attributes {
		attributes[a.Key] = a.Value.GetStringValue()
	}
	assert.Equal(t, map[string]string{
		"kausality.record.id": m.Record.ID, "kausality.record.type": "Intent", "k8s.cluster.name": "prod", "k8s.cluster.uid": "cluster-uid",
		"k8s.namespace.name": "shop", "k8s.object.api_version": "example.org/v1", "k8s.object.kind": "Part", "k8s.object.name": "part-1", "user.name": "anna",
	}, attributes)
	require.NoError(t, s.Close())
}

func TestOTLPStatus(t *testing.T) {
	for code, refuses := range map[int]bool{400: true, 401: false, 404: false, 413: true, 429: false, 500: false, 503: false} {
		url, _ := otlpReceiver(t, never, func() int { return code })
		_, s := configured(t, "otlp="+url+",plain=true")
		err := s.Send(context.Background(), []Message{message(t, 0)})
		require.Error(t, err)
		assert.Equal(t, refuses, refused(err), code)
		assert.NotContains(t, err.Error(), url)
	}
}

// TestOTLPPartialSuccess is that a record which a collector rejects with status 200 is found and set aside.
func TestOTLPPartialSuccess(t *testing.T) {
	url, got := otlpReceiver(t, func(l *logspb.LogRecord) bool { return strings.Contains(l.Body.GetStringValue(), "part-3") },
		func() int { return http.StatusOK })
	_, s := configured(t, "otlp="+url+",plain=true")
	d, stop := running(t, t.TempDir(), s, raw(t, 6)...)
	await.Poll(t, "all records to be delivered", func() bool { return d.Reader.Pending() == 0 })
	stop()
	seen := map[string]bool{}
	for _, l := range got() {
		seen[l.Body.GetStringValue()] = true
	}
	assert.Len(t, seen, 5)
	content, err := os.ReadFile(d.Aside.Path())
	require.NoError(t, err)
	assert.Equal(t, 1, bytes.Count(content, []byte("\n")))
}

func TestParse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	cases := map[string]struct {
		text   string
		err    string
		reason string
	}{
		"CloudEvents":     {text: "cloudevents=https://h/p?key=s", reason: "TLS"},
		"Plain":           {text: "cloudevents=http://h,plain=true", reason: "declared"},
		"NotPlain":        {text: "cloudevents=http://h", err: "https", reason: "records name users"},
		"NotPlainNATS":    {text: "nats=nats://h:4222", err: "tls", reason: "records name users"},
		"NATSWithCA":      {text: "nats=nats://h:4222,ca-file=" + file, reason: "a CA means TLS"},
		"NATSOverTLS":     {text: "nats=tls://h:4222,creds-file=" + file, reason: "TLS"},
		"OTLP":            {text: "otlp=https://h:4318,token-file=" + file, reason: "TLS"},
		"UnknownKind":     {text: "kafka=https://user:secret@h", err: "no sink", reason: "no such kind"},
		"NoKind":          {text: "https://h", err: "no sink", reason: "the kind is needed"},
		"NoURL":           {text: "otlp=", err: "URL", reason: "an address is needed"},
		"WrongScheme":     {text: "nats=https://h", err: "scheme", reason: "another protocol"},
		"UnknownOption":   {text: "otlp=https://h,x=y", err: "option", reason: "a mistake is reported"},
		"MissingFile":     {text: "otlp=https://h,token-file=/nowhere", err: "cannot read", reason: "a mistake is reported at once"},
		"CertWithoutKey":  {text: "otlp=https://h,cert-file=" + file, err: "key-file", reason: "both are needed"},
		"TokenForNATS":    {text: "nats=tls://h,token-file=" + file, err: "token-file", reason: "it would be ignored"},
		"WildcardSubject": {text: "nats=tls://h,subject=a.>", err: "subject", reason: "nothing is published to wildcards"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(tc.text)
			if tc.err == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.ErrorContains(t, err, tc.err, tc.reason)
			assert.NotContains(t, err.Error(), "secret")
		})
	}
	c, err := Parse("cloudevents=https://user:pass@h.example.org:8443/in?key=secret")
	require.NoError(t, err)
	assert.Regexp(t, `^cloudevents-h\.example\.org-8443-[0-9a-f]{8}$`, c.Name())
}

// FuzzParse is that any text is a sink or an error, and that a name is one of a file.
func FuzzParse(f *testing.F) {
	f.Add("cloudevents=https://h/p?key=s")
	f.Add("nats=tls://h,subject=a")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			return
		}
		assert.Equal(t, filepath.Base(c.Name()), c.Name())
		_, err = New(c)
		_ = err // certificates of files
	})
}

func TestToken(t *testing.T) {
	assert.Equal(t, "a_b_c__d", token("a.b c*>d"))
	r := recordsv1alpha1.Record{Type: recordsv1alpha1.TypeVote, Cluster: recordsv1alpha1.Cluster{UID: "u-1"}}
	assert.Equal(t, "kausality.u-1.Vote", (&jetStream{Config: Config{Subject: "kausality"}}).subject(r))
}
