package client_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/provider/cloud"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// start a cloud whose clock is stopped unless it is moved.
func start(t *testing.T, o ...cloud.Option) *client.Client {
	t.Helper()
	srv := httptest.NewServer(cloud.NewServer(append([]cloud.Option{cloud.WithTime(func() time.Time { return epoch })}, o...)...))
	t.Cleanup(srv.Close)
	return client.New(srv.URL, client.WithUserAgent("provider/test"))
}

func database(size int64, status cloud.Status, tags map[string]string) cloud.Database {
	return cloud.Database{
		Meta:           cloud.Meta{Name: "db", Status: status, CreatedAt: epoch},
		DatabaseFields: cloud.DatabaseFields{Size: size, Engine: cloud.DefaultEngine, Tags: tags},
	}
}

func wantDatabase(t *testing.T, c *client.Client, want cloud.Database) {
	t.Helper()
	got, err := c.Get(context.Background(), "db")
	require.NoError(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("-want, +got:\n%s", diff)
	}
}

func put(t *testing.T, c *client.Client, f cloud.DatabaseFields) bool {
	t.Helper()
	_, pending, err := c.Databases().Put(context.Background(), "db", f)
	require.NoError(t, err)
	return pending
}

func TestLifecycle(t *testing.T) {
	ctx, c := context.Background(), start(t)

	if _, err := c.Get(ctx, "db"); !client.IsNotFound(err) {
		t.Fatalf("want not found, got %v", err)
	}
	if put(t, c, cloud.DatabaseFields{Size: 5, Tags: map[string]string{"a": "1", "b": "2"}}) {
		t.Fatal("a synchronous creation must not be pending")
	}
	wantDatabase(t, c, database(5, cloud.StatusAvailable, map[string]string{"a": "1", "b": "2"}))

	if _, _, err := c.Databases().Put(ctx, "db", cloud.DatabaseFields{Size: 6}); !client.IsConflict(err) {
		t.Fatalf("creating twice: want conflict, got %v", err)
	}
	got, pending, err := c.Databases().Patch(ctx, "db", client.Fields{"size": 7, "tags": map[string]string{"a": "9"}})
	require.NoError(t, err)
	if diff := cmp.Diff(database(7, cloud.StatusAvailable, map[string]string{"a": "9"}), got); diff != "" || pending {
		t.Fatalf("a field is replaced as a whole: pending %t, -want, +got:\n%s", pending, diff)
	}
	_, _, err = c.Databases().Patch(ctx, "db", client.Fields{"tags": nil})
	require.NoError(t, err)
	wantDatabase(t, c, database(7, cloud.StatusAvailable, nil))

	list, err := c.Databases().List(ctx)
	require.NoError(t, err)
	if len(list) != 1 || list[0].Name != "db" {
		t.Fatalf("want one database in the list, got %v", list)
	}
	_, err = c.Databases().Delete(ctx, "db")
	require.NoError(t, err)
	if _, err := c.Get(ctx, "db"); !client.IsNotFound(err) {
		t.Fatalf("want not found after deletion, got %v", err)
	}
	if _, err := c.Databases().Delete(ctx, "db"); !client.IsNotFound(err) {
		t.Fatalf("deleting twice: want not found, got %v", err)
	}
}

func TestRefusals(t *testing.T) {
	ctx, c := context.Background(), start(t)
	put(t, c, cloud.DatabaseFields{Size: 5})
	cases := map[string]struct {
		changes client.Fields
		want    string
	}{
		"UnknownField": {changes: client.Fields{"colour": "red"}, want: `cloud: invalid databases: cannot decode fields: json: unknown field "colour" (422)`},
		"ServerField":  {changes: client.Fields{"status": "available"}, want: `cloud: invalid databases: cannot decode fields: json: unknown field "status" (422)`},
		"Size":         {changes: client.Fields{"size": 0}, want: "cloud: invalid databases: size must be at least 1 (422)"},
		"Type": {changes: client.Fields{"size": "big"},
			want: "cloud: invalid databases: cannot decode fields: json: cannot unmarshal string into Go struct field DatabaseFields.size of type int64 (422)"},
		"NoObject": {changes: nil, want: "cloud: cannot decode body: want one JSON object (400)"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := c.Databases().Patch(ctx, "db", tc.changes)
			if err == nil || err.Error() != tc.want {
				t.Errorf("want error %q, got %v", tc.want, err)
			}
			wantDatabase(t, c, database(5, cloud.StatusAvailable, nil))
		})
	}
}

func TestAsync(t *testing.T) {
	ctx, c := context.Background(), start(t)
	require.NoError(t, c.SetAsync(ctx, true, time.Minute))

	if !put(t, c, cloud.DatabaseFields{Size: 5}) {
		t.Fatal("want a pending creation")
	}
	wantDatabase(t, c, database(5, cloud.StatusCreating, nil))
	if _, _, err := c.Databases().Patch(ctx, "db", client.Fields{"size": 6}); !client.IsConflict(err) {
		t.Fatalf("updating what is being created: want conflict, got %v", err)
	}
	_, err := c.Advance(ctx, 59*time.Second)
	require.NoError(t, err)
	wantDatabase(t, c, database(5, cloud.StatusCreating, nil))
	_, err = c.Advance(ctx, time.Second)
	require.NoError(t, err)
	wantDatabase(t, c, database(5, cloud.StatusAvailable, nil))

	require.NoError(t, c.SetAsync(ctx, true, 0)) // Until Finish.
	got, pending, err := c.Databases().Patch(ctx, "db", client.Fields{"size": 6})
	require.NoError(t, err)
	if diff := cmp.Diff(database(5, cloud.StatusUpdating, nil), got); diff != "" || !pending {
		t.Fatalf("the old values hold until the update is finished: pending %t, -want, +got:\n%s", pending, diff)
	}
	_, err = c.Advance(ctx, 24*time.Hour)
	require.NoError(t, err)
	wantDatabase(t, c, database(5, cloud.StatusUpdating, nil))
	n, err := c.Finish(ctx, "", "")
	require.NoError(t, err)
	if n != 1 {
		t.Fatalf("want one operation finished, got %d", n)
	}
	wantDatabase(t, c, database(6, cloud.StatusAvailable, nil))
}

func TestAsyncFailure(t *testing.T) {
	ctx, c := context.Background(), start(t)
	put(t, c, cloud.DatabaseFields{Size: 5})
	require.NoError(t, c.SetAsync(ctx, true, 0))
	_, _, err := c.Databases().Patch(ctx, "db", client.Fields{"size": 6})
	require.NoError(t, err)
	_, err = c.Finish(ctx, "db", "quota exceeded")
	require.NoError(t, err)
	want := database(5, cloud.StatusFailed, nil)
	want.Message = "quota exceeded"
	wantDatabase(t, c, want)

	require.NoError(t, c.Reset(ctx))
	_, _, err = c.Databases().Patch(ctx, "db", client.Fields{"size": 6})
	require.NoError(t, err)
	wantDatabase(t, c, database(6, cloud.StatusAvailable, nil))
}

func TestIncompleteCreation(t *testing.T) {
	ctx, c := context.Background(), start(t)
	require.NoError(t, c.SetIncompleteCreation(ctx, true))
	put(t, c, cloud.DatabaseFields{Size: 5})
	wantDatabase(t, c, database(5, cloud.StatusIncomplete, nil))
	_, _, err := c.Databases().Patch(ctx, "db", client.Fields{"size": 5})
	require.NoError(t, err)
	wantDatabase(t, c, database(5, cloud.StatusAvailable, nil))
}

func TestSlowDeletion(t *testing.T) {
	ctx, c := context.Background(), start(t)
	require.NoError(t, c.SetDeleteDuration(ctx, 90*time.Minute))
	put(t, c, cloud.DatabaseFields{Size: 5})
	for range 2 { // Deleting again neither fails nor restarts the deletion.
		pending, err := c.Databases().Delete(ctx, "db")
		require.NoError(t, err)
		if !pending {
			t.Fatal("want a pending deletion")
		}
		_, err = c.Advance(ctx, 40*time.Minute)
		require.NoError(t, err)
		wantDatabase(t, c, database(5, cloud.StatusDeleting, nil))
	}
	now, err := c.Advance(ctx, 10*time.Minute)
	require.NoError(t, err)
	if want := epoch.Add(90 * time.Minute); !now.Equal(want) {
		t.Fatalf("want the clock at %s, got %s", want, now)
	}
	if _, err := c.Get(ctx, "db"); !client.IsNotFound(err) {
		t.Fatalf("want the database gone after 90 minutes, got %v", err)
	}
}

func TestFailing(t *testing.T) {
	ctx, c := context.Background(), start(t)
	put(t, c, cloud.DatabaseFields{Size: 5})
	require.NoError(t, c.FailNext(ctx, 2, http.StatusTooManyRequests))
	for i, want := range []int{http.StatusTooManyRequests, http.StatusTooManyRequests, http.StatusOK} {
		_, _, err := c.Databases().Patch(ctx, "db", client.Fields{"size": 6 + i})
		if (err == nil) != (want == http.StatusOK) {
			t.Errorf("write %d: want status %d, got %v", i, want, err)
		}
	}
	wantDatabase(t, c, database(8, cloud.StatusAvailable, nil)) // Failed writes had no effect.
	require.NoError(t, c.FailNext(ctx, -1, 0))
	for range 3 {
		if _, err := c.Databases().Delete(ctx, "db"); err == nil {
			t.Fatal("all writes must fail")
		}
	}
	wantDatabase(t, c, database(8, cloud.StatusAvailable, nil)) // Reads do not.
}

func TestLatency(t *testing.T) {
	ctx, c := context.Background(), start(t)
	put(t, c, cloud.DatabaseFields{Size: 5})
	require.NoError(t, c.SetLatency(ctx, time.Hour))
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := c.Databases().Delete(short, "db"); err == nil {
		t.Fatal("want the request to time out")
	}
	require.NoError(t, c.Reset(ctx))
	wantDatabase(t, c, database(5, cloud.StatusAvailable, nil)) // Who gives up has changed nothing.
}

func TestLog(t *testing.T) {
	ctx, c := context.Background(), start(t)
	put(t, c, cloud.DatabaseFields{Size: 5})
	seq, err := c.LastSeq(ctx)
	require.NoError(t, err)
	require.NoError(t, c.Change(ctx, "db", client.Fields{"size": 1}))
	wantDatabase(t, c, database(1, cloud.StatusAvailable, nil))
	_, _, err = c.Databases().Patch(ctx, "db", client.Fields{"size": 5})
	require.NoError(t, err)
	require.NoError(t, c.Lose(ctx, "db"))
	if err := c.Lose(ctx, "db"); !client.IsNotFound(err) {
		t.Fatalf("want not found, got %v", err)
	}

	ignore := cmpopts.IgnoreFields(cloud.Entry{}, "Body", "Time", "Client")
	patch := cloud.Entry{Seq: 4, Kind: cloud.EntryRequest, Method: "PATCH", Path: "/databases/db", Code: 200}
	all, err := c.Log(ctx, seq)
	require.NoError(t, err)
	want := []cloud.Entry{
		{Seq: 2, Kind: cloud.EntryBackdoor, Method: "POST", Path: "/_control/change", Code: 204},
		{Seq: 3, Kind: cloud.EntryRequest, Method: "GET", Path: "/databases/db", Code: 200},
		patch,
		{Seq: 5, Kind: cloud.EntryBackdoor, Method: "POST", Path: "/_control/lose", Code: 204},
		{Seq: 6, Kind: cloud.EntryBackdoor, Method: "POST", Path: "/_control/lose", Code: 404},
	}
	if diff := cmp.Diff(want, all, ignore); diff != "" {
		t.Errorf("log: -want, +got:\n%s", diff)
	}
	reads, err := c.Reads(ctx, seq, "db")
	require.NoError(t, err)
	if reads != 1 {
		t.Errorf("want 1 read, got %d", reads)
	}
	writes, err := c.Writes(ctx, seq)
	require.NoError(t, err)
	if diff := cmp.Diff([]cloud.Entry{patch}, writes, ignore); diff != "" {
		t.Errorf("the backdoor must not look like a write: -want, +got:\n%s", diff)
	}
	if w := writes[0]; string(w.Body) != `{"size":5}` || w.Client != "provider/test" || !w.Time.Equal(epoch) {
		t.Errorf("want body, client and time in the log, got %s, %s, %s", w.Body, w.Client, w.Time)
	}
}

func TestLogDropped(t *testing.T) {
	ctx, c := context.Background(), start(t, cloud.WithLogSize(2))
	put(t, c, cloud.DatabaseFields{Size: 5})
	for range 3 {
		wantDatabase(t, c, database(5, cloud.StatusAvailable, nil))
	}
	if _, err := c.Writes(ctx, 0); err == nil || !strings.Contains(err.Error(), "2 of the entries are gone") {
		t.Errorf("a log that is not complete must not look complete, got %v", err)
	}
}

func TestControlRefuses(t *testing.T) {
	srv := httptest.NewServer(cloud.NewServer())
	t.Cleanup(srv.Close)
	cases := map[string]struct{ path, body, want string }{
		"UnknownSetting": {path: "/_control", body: `{"asynch":true}`,
			want: `{"error":"cannot decode body: json: unknown field \"asynch\""}`},
		"Duration": {path: "/_control", body: `{"latency":"fast"}`,
			want: `{"error":"cannot decode body: cannot parse duration \"fast\""}`},
		"NegativeDuration": {path: "/_control", body: `{"latency":"-1s"}`,
			want: `{"error":"invalid settings: durations must not be negative"}`},
		"FailCode": {path: "/_control", body: `{"failCode":200}`,
			want: `{"error":"invalid settings: failCode must be an HTTP error status, not 200"}`},
		"ClockBack": {path: "/_clock", body: `{"advance":"-1h"}`, want: `{"error":"the clock only goes forward"}`},
		"Collection": {path: "/_control/lose", body: `{"collection":"x","name":"db"}`,
			want: `{"error":"there is no collection \"x\""}`},
		"FinishCollection": {path: "/_control/finish", body: `{"collection":"x"}`, want: `{"error":"there is no collection \"x\""}`},
		"ChangeNothing": {path: "/_control/change", body: `{"name":"db","size":1}`,
			want: `{"error":"databases/db does not exist"}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, srv.URL+tc.path, strings.NewReader(tc.body))
			require.NoError(t, err)
			rsp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer rsp.Body.Close() //nolint:errcheck // A test.
			b := make([]byte, 200)
			n, _ := rsp.Body.Read(b)
			if got := string(b[:n]); got != tc.want || rsp.StatusCode < 400 {
				t.Errorf("want %s, got %d %s", tc.want, rsp.StatusCode, got)
			}
		})
	}
	if err := client.New(srv.URL).Healthy(context.Background()); err != nil {
		t.Errorf("want a healthy cloud, got %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	srv := httptest.NewServer(cloud.NewServer())
	c := client.New(srv.URL)
	srv.Close()
	if _, err := c.Get(context.Background(), "db"); err == nil || client.IsNotFound(err) {
		t.Errorf("a cloud that cannot be reached must not look empty, got %v", err)
	}
}
