package storetest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	records "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/history"
	"github.com/kausality-io/function-kausality/internal/history/query"
)

// Now is the time of the stores that are tested.
var Now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// Options returns the options of the stores that are tested.
func Options() history.Options {
	return history.Options{HashKey: []byte("0123456789abcdef0123456789abcdef"), Now: func() time.Time { return Now }}
}

// Record returns the record of a database orders in namespace shop, of some time, changed by f.
func Record(n int, f func(*records.Record)) records.Record {
	r := records.Record{
		Type: records.TypeIntent, Time: metav1.NewMicroTime(Now.Add(time.Duration(n) * time.Second)),
		Cluster: records.Cluster{Name: "prod", UID: "cluster-1"},
		Object:  records.Object{APIVersion: "example.org/v1", Kind: "Database", Namespace: "shop", Name: "orders", UID: "uid-orders"},
		Actor:   &records.Actor{User: "anna"},
	}
	if f != nil {
		f(&r)
	}
	if r.ID == "" {
		r.ID = records.ID(r.Cluster, r.Object, r.Type, r.Time.Time, fmt.Sprint(n))
	}
	return r
}

// Deliveries returns the deliveries of records.
func Deliveries(t *testing.T, list ...records.Record) (out []history.Delivery) {
	t.Helper()
	for _, r := range list {
		raw, err := records.Encode(r)
		require.NoError(t, err)
		out = append(out, history.Delivery{Raw: raw, ID: r.ID})
	}
	return out
}

// insert records of one sender, and return the receipt.
func insert(t *testing.T, s *history.Store, list ...records.Record) query.Receipt {
	t.Helper()
	receipt, err := s.Insert(t.Context(), "prod", Deliveries(t, list...))
	require.NoError(t, err)
	return receipt
}

// ids returns the ids of what was found.
func ids(list []history.Found) []string {
	out := make([]string, 0, len(list))
	for _, f := range list {
		out = append(out, f.Record.ID)
	}
	return out
}

// find finds all records of a filter.
func find(t *testing.T, s *history.Store, f query.Filter) []history.Found {
	t.Helper()
	list, err := s.Find(t.Context(), f, nil, 1000)
	require.NoError(t, err)
	return list
}

// Run runs all tests, each with a store of its own that open returns, empty.
func Run(t *testing.T, open func(t *testing.T) *history.Store) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *history.Store){
		"OnceEach": onceEach, "Concurrent": concurrent, "Filters": filters, "Cursor": cursor, "Graph": graph, "Retention": retention,
		"Forget": forget, "ForgetLater": forgetLater, "Export": export, "Future": future, "Invalid": invalid, "LaterSchema": laterSchema,
		"Sender": sender, "SharedName": sharedName, "HostileText": hostileText,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// onceEach: a record that is delivered again, in the same batch or another one, is stored once (KR-16-30).
func onceEach(t *testing.T, s *history.Store) {
	a, b := Record(1, nil), Record(2, nil)
	require.Equal(t, query.Receipt{Stored: 2, Known: 1}, insert(t, s, a, b, a))
	require.Equal(t, query.Receipt{Known: 2}, insert(t, s, b, a))
	require.Equal(t, []string{b.ID, a.ID}, ids(find(t, s, query.Filter{})))
}

// concurrent: of several deliveries of the same records at once one stores each (KR-16-30).
func concurrent(t *testing.T, s *history.Store) {
	var list []records.Record
	for n := range 300 {
		list = append(list, Record(n, nil))
	}
	var wait sync.WaitGroup
	receipts := make([]query.Receipt, 6)
	for i := range receipts {
		batch := Deliveries(t, list...)
		wait.Go(func() {
			var err error
			receipts[i], err = s.Insert(context.Background(), "prod", batch)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	stored, known := 0, 0
	for _, r := range receipts {
		stored, known = stored+r.Stored, known+r.Known
	}
	require.Equal(t, []int{300, 1500}, []int{stored, known})
	require.Len(t, find(t, s, query.Filter{}), 300)
}

// filters: a record is found by each thing it has, and by all of several (KR-16-31).
func filters(t *testing.T, s *history.Store) {
	intent := Record(1, nil)
	held := Record(2, func(r *records.Record) {
		r.Type, r.External, r.Differences = records.TypeDriftHeld, "arn:aws:rds:eu:1:db/orders", []string{"00112233445566aa"}
		r.Object = records.Object{APIVersion: "cloud.example.org/v1", Kind: "Instance", Name: "orders-x7", UID: "uid-x7"}
		r.Parent = &records.Object{APIVersion: "example.org/v1", Kind: "Database", Namespace: "shop", Name: "orders", UID: "uid-orders"}
		r.Trace = []records.Hop{{Kind: "Database", Name: "orders", User: "anna"}, {Kind: "Instance", Name: "orders-x7", User: "crossplane"}}
		r.Causes = []records.Cause{{Kind: "CompositionRevision", Name: "database-r7", Author: "paul"}}
		r.Actor = &records.Actor{User: "crossplane"}
	})
	vote := Record(3, func(r *records.Record) {
		r.Type, r.Actor, r.Object = records.TypeVote, &records.Actor{User: "bert"}, held.Object
		r.Approvers = []records.Approver{{User: "bert"}, {User: "carl", OnBehalfOf: "dora"}}
	})
	other := Record(4, func(r *records.Record) {
		r.Cluster = records.Cluster{Name: "test", UID: "cluster-2"}
		r.Object.Name, r.Object.UID, r.Actor = "users", "uid-users", &records.Actor{User: "emil"}
	})
	insert(t, s, intent, held, vote, other)
	for name, tc := range map[string]struct {
		filter query.Filter
		want   []string
	}{
		"All":           {query.Filter{}, []string{other.ID, vote.ID, held.ID, intent.ID}},
		"Object":        {query.Filter{Kind: "Database.example.org", Namespace: "shop", Name: "orders"}, []string{held.ID, intent.ID}},
		"OtherGroup":    {query.Filter{Kind: "Database", Namespace: "shop", Name: "orders"}, []string{}},
		"ClusterScoped": {query.Filter{Kind: "Instance.cloud.example.org", Name: "orders-x7"}, []string{vote.ID, held.ID}},
		"Kind":          {query.Filter{Kind: "Database.example.org"}, []string{other.ID, intent.ID}},
		"Namespace":     {query.Filter{Namespace: "shop"}, []string{other.ID, intent.ID}},
		"UID":           {query.Filter{UID: "uid-orders"}, []string{held.ID, intent.ID}},
		"Initiator":     {query.Filter{Initiator: "anna"}, []string{held.ID, intent.ID}},
		"NotInitiator":  {query.Filter{Initiator: "crossplane"}, []string{}},
		"Approver":      {query.Filter{Approver: "dora"}, []string{vote.ID}},
		"Voter":         {query.Filter{Approver: "bert"}, []string{vote.ID}},
		"Cause":         {query.Filter{Cause: "compositionrevision/database-r7"}, []string{held.ID}},
		"CauseName":     {query.Filter{Cause: "database-r7"}, []string{held.ID}},
		"External":      {query.Filter{External: "arn:aws:rds:eu:1:db/orders"}, []string{held.ID}},
		"Difference":    {query.Filter{Difference: "00112233445566aa"}, []string{held.ID}},
		"Type":          {query.Filter{Type: "Vote"}, []string{vote.ID}},
		"ClusterName":   {query.Filter{Cluster: "test"}, []string{other.ID}},
		"ClusterUID":    {query.Filter{Cluster: "cluster-1", Type: "Intent"}, []string{intent.ID}},
		"Since":         {query.Filter{Since: Now.Add(3 * time.Second)}, []string{other.ID, vote.ID}},
		"Until":         {query.Filter{Until: Now.Add(2 * time.Second)}, []string{intent.ID}},
		"StoredSince":   {query.Filter{StoredSince: Now.Add(time.Second)}, []string{}},
		"Stored":        {query.Filter{StoredSince: Now}, []string{other.ID, vote.ID, held.ID, intent.ID}},
		"Both":          {query.Filter{Initiator: "anna", Cause: "database-r7", Kind: "Database.example.org", Namespace: "shop", Name: "orders"}, []string{held.ID}},
		"Neither":       {query.Filter{Initiator: "anna", Approver: "bert"}, []string{}},
	} {
		require.Equal(t, tc.want, ids(find(t, s, tc.filter)), name)
	}
}

// cursor: pages have each record once, also where several have the same time, and where records arrive between them.
func cursor(t *testing.T, s *history.Store) {
	var want []string
	for n := range 25 {
		r := Record(n/10, func(r *records.Record) { r.ID = uuid.NewSHA1(uuid.Nil, fmt.Append(nil, n)).String() })
		insert(t, s, r)
		want = append([]string{r.ID}, want...)
	}
	until := Now.Add(time.Minute)
	for _, f := range []query.Filter{{Until: until}, {Until: until, Initiator: "anna"}} {
		var got []string
		var after *query.Cursor
		for {
			page, err := s.Find(t.Context(), f, after, 7)
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			got = append(got, ids(page)...)
			c := page[len(page)-1].Cursor
			after, err = query.DecodeCursor(c.Encode())
			require.NoError(t, err)
			insert(t, s, Record(60+len(got), nil)) // newer than what is read
		}
		require.Equal(t, want, got)
	}
}

// graph: what led to a record, and what followed, over records that are not there, and in circles (KR-16-32).
func graph(t *testing.T, s *history.Store) {
	caused := func(n int, by ...string) records.Record {
		return Record(n, func(r *records.Record) { r.CausedBy = by })
	}
	intent := caused(1)
	held := caused(2, intent.ID, uuid.NewString())
	vote := caused(3, held.ID)
	opened := caused(4, held.ID, vote.ID)
	call := caused(5, opened.ID)
	unrelated := caused(6)
	insert(t, s, call, opened, vote, held, intent, unrelated)
	list, truncated, err := s.Graph(t.Context(), held.ID)
	require.NoError(t, err)
	require.False(t, truncated)
	require.Equal(t, []string{intent.ID, held.ID, vote.ID, opened.ID, call.ID}, ids(list))
	list, _, err = s.Graph(t.Context(), call.ID)
	require.NoError(t, err)
	require.Len(t, list, 5)
	list, _, err = s.Graph(t.Context(), uuid.NewString())
	require.NoError(t, err)
	require.Empty(t, list)
	a := caused(7)
	b := caused(8, a.ID)
	a.CausedBy = []string{b.ID}
	insert(t, s, a, b)
	list, _, err = s.Graph(t.Context(), a.ID)
	require.NoError(t, err)
	require.Len(t, list, 2)
}

// retention: older records go, with all that finds them, in batches; others stay (KR-16-33).
func retention(t *testing.T, s *history.Store) {
	var old []records.Record
	for n := range 1100 {
		old = append(old, Record(-100000-n, nil))
	}
	fresh := Record(1, nil)
	insert(t, s, append(old, fresh)...)
	batches := 0
	for more := true; more; batches++ {
		var err error
		_, more, err = s.Expire(t.Context(), Now.Add(-time.Hour))
		require.NoError(t, err)
	}
	require.Equal(t, 3, batches)
	require.Equal(t, []string{fresh.ID}, ids(find(t, s, query.Filter{})))
	require.Equal(t, []string{fresh.ID}, ids(find(t, s, query.Filter{Initiator: "anna"})))
	require.Equal(t, 1, insert(t, s, old[0]).Stored, "what was deleted can be stored again: nothing of it is left")
}

// forget: a name is in no answer any more, what its bearer did remains linked, and other names stay (KR-16-34).
func forget(t *testing.T, s *history.Store) {
	one := Record(-1, func(r *records.Record) {
		r.Message, r.Labels = "as anna wished, see DB-7; annabelle agrees", map[string]string{"ticket": "DB-7"}
		r.Trace = []records.Hop{{Kind: "Database", Name: "anna", User: "anna"}, {Kind: "Instance", Name: "x", User: "bert"}}
		r.Approvers = []records.Approver{{User: "bert", OnBehalfOf: "anna"}}
		r.Causes = []records.Cause{{Kind: "CompositionRevision", Name: "r7", Author: "anna"}, {Kind: "User", Name: "anna"}}
	})
	two := Record(-2, nil)
	other := Record(-3, func(r *records.Record) { r.Actor.User = "annabelle" })
	insert(t, s, one, two, other)
	n, err := s.Forget(t.Context(), "anna")
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Empty(t, find(t, s, query.Filter{Initiator: "anna"}))
	require.Empty(t, find(t, s, query.Filter{Approver: "anna"}))
	got, err := s.Get(t.Context(), one.ID)
	require.NoError(t, err)
	require.Equal(t, "anna", got.Record.Trace[0].Name, "the name of an object is no name of a person")
	got.Record.Trace[0].Name = ""
	raw, err := json.Marshal(got.Record)
	require.NoError(t, err)
	require.NotContains(t, strings.ReplaceAll(string(raw), "annabelle", ""), "anna")
	require.Equal(t, "DB-7", got.Record.Labels["ticket"])
	require.ElementsMatch(t, []string{one.ID, two.ID}, ids(find(t, s, query.Filter{Initiator: got.Record.Trace[0].User})))
	require.Equal(t, []string{other.ID}, ids(find(t, s, query.Filter{Initiator: "annabelle"})))
	n, err = s.Forget(t.Context(), "anna")
	require.NoError(t, err)
	require.Zero(t, n, "once more changes nothing")
}

// forgetLater: a record from before that arrives after its name was forgotten has no name either; a later one has (KR-16-34).
func forgetLater(t *testing.T, s *history.Store) {
	_, err := s.Forget(t.Context(), "anna")
	require.NoError(t, err)
	before := Record(-1, func(r *records.Record) { r.Message = "for (anna)." })
	after := Record(1, nil)
	insert(t, s, before, after)
	require.Equal(t, []string{after.ID}, ids(find(t, s, query.Filter{Initiator: "anna"})))
	got, err := s.Get(t.Context(), before.ID)
	require.NoError(t, err)
	require.NotContains(t, string(got.Raw), "anna")
}

// export: what was exported is in the store unchanged, also after a name was forgotten; a record that was changed,
// removed or inserted since is found, in the store and in the export (KR-16-35).
func export(t *testing.T, s *history.Store) {
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	var list []records.Record
	for n := range 10 {
		list = append(list, Record(n-2*86400, func(r *records.Record) { r.Message = "for anna & bert" }))
	}
	insert(t, s, append(list, Record(-86400, nil), Record(-3*86400, nil))...)
	var b bytes.Buffer
	_, err = s.Export(t.Context(), &b, "cluster-1", "2026-11-24", "", private)
	require.ErrorContains(t, err, "not over")
	b.Reset()
	seal, err := s.Export(t.Context(), &b, "cluster-1", "2026-11-22", "", private)
	require.NoError(t, err)
	require.Equal(t, 10, seal.Count)
	require.NotContains(t, b.String(), "anna")
	verify := func() history.Difference {
		e, err := history.ReadExport(bytes.NewReader(b.Bytes()), public)
		require.NoError(t, err)
		d, err := s.Verify(t.Context(), e)
		require.NoError(t, err)
		return d
	}
	require.Equal(t, history.Difference{}, verify())
	n, err := s.Forget(t.Context(), "anna")
	require.NoError(t, err)
	require.Equal(t, 12, n)
	require.Equal(t, history.Difference{}, verify())
	tamper(t, b.String(), public)
}

// tamper tampers with an export, in every way.
func tamper(t *testing.T, exported string, public ed25519.PublicKey) {
	t.Helper()
	lines := strings.SplitAfter(exported, "\n")
	for name, tampered := range map[string][]string{
		"Changed":  append(append(append([]string{}, lines[:4]...), strings.Replace(lines[4], "Intent", "Rollout", 1)), lines[5:]...),
		"Removed":  append(append([]string{}, lines[:4]...), lines[5:]...),
		"Inserted": append(append(append([]string{}, lines[:4]...), lines[3]), lines[4:]...),
		"Cut":      lines[:8],
		"Day":      append([]string{strings.Replace(lines[0], "11-22", "11-21", 1)}, lines[1:]...),
		"Seal":     append(append([]string{}, lines[:11]...), strings.Replace(lines[11], `"exported":"2026`, `"exported":"2027`, 1)),
	} {
		_, err := history.ReadExport(strings.NewReader(strings.Join(tampered, "")), public)
		require.Error(t, err, name)
	}
	other, _, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	_, err = history.ReadExport(strings.NewReader(exported), other)
	require.ErrorContains(t, err, "signature")
}

// future: a record far ahead of the store's clock is refused, since it would be the newest for long; one a little ahead is stored (KR-16-41).
func future(t *testing.T, s *history.Store) {
	r := insert(t, s, Record(int((history.Future+time.Minute)/time.Second), nil), Record(60, nil))
	require.Equal(t, 1, r.Stored)
	require.Len(t, r.Refused, 1)
	require.Equal(t, history.ReasonFuture, r.Refused[0].Reason)
}

// invalid: what is no record is refused by itself, and the rest of its batch is stored (KR-16-41).
func invalid(t *testing.T, s *history.Store) {
	batch := append(Deliveries(t, Record(1, nil)), history.Delivery{Raw: []byte(`{"schema":"v1alpha1"}`), ID: "x"}, history.Delivery{Raw: []byte(`nonsense`)})
	r, err := s.Insert(t.Context(), "prod", batch)
	require.NoError(t, err)
	require.Equal(t, 1, r.Stored)
	require.Len(t, r.Refused, 2)
	require.Equal(t, history.ReasonInvalid, r.Refused[0].Reason)
}

// laterSchema: a record of a later version of the schema is kept as it is, and found by no query (KR-16-38).
func laterSchema(t *testing.T, s *history.Store) {
	later := history.Delivery{Raw: []byte(`{"schema":"v2","id":"x","new":true}`), ID: "x"}
	for range 2 {
		r, err := s.Insert(t.Context(), "prod", []history.Delivery{later})
		require.NoError(t, err)
		require.Equal(t, query.Receipt{Kept: 1}, r)
	}
	stats, err := s.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(1), stats.Unread)
	require.Empty(t, find(t, s, query.Filter{}))
}

// sender: records of a cluster that come with another credential than its first are refused (KR-16-39).
func sender(t *testing.T, s *history.Store) {
	insert(t, s, Record(1, nil))
	r, err := s.Insert(t.Context(), "other", Deliveries(t, Record(2, nil), Record(3, func(r *records.Record) { r.Cluster.UID = "cluster-2" })))
	require.NoError(t, err)
	require.Equal(t, 1, r.Stored)
	require.Len(t, r.Refused, 1)
	require.Equal(t, history.ReasonOtherSender, r.Refused[0].Reason)
	named := Deliveries(t, Record(4, nil), Record(5, nil))
	named[0].Cluster, named[1].Cluster = "cluster-uid-of-another", string(Record(5, nil).Cluster.UID)
	r, err = s.Insert(t.Context(), "prod", named)
	require.NoError(t, err)
	require.Equal(t, 1, r.Stored, "the one that came as its own cluster's")
	require.Len(t, r.Refused, 1)
	require.Equal(t, history.ReasonOtherSender, r.Refused[0].Reason)
}

// hostileText: what an object's author writes stops no record of others, and no query (KR-16-42).
func hostileText(t *testing.T, s *history.Store) {
	nul := Record(1, func(r *records.Record) { r.Object.Name = "a\x00b" })
	other := Record(2, nil)
	raw := Deliveries(t, other)[0]
	raw.Raw = append(bytes.TrimSuffix(raw.Raw, []byte("}")), `,"TIME":"x","Object":{"name":"another"}}`...) // unknown: names are case-sensitive
	invalid := Deliveries(t, Record(3, func(r *records.Record) { r.Object.Name = "name-to-break" }))[0]
	invalid.Raw = bytes.Replace(invalid.Raw, []byte("name-to-break"), []byte("name-\xff-break"), 1)
	r, err := s.Insert(t.Context(), "prod", append(Deliveries(t, nul), raw, invalid))
	require.NoError(t, err)
	require.Equal(t, 2, r.Stored)
	require.Len(t, r.Refused, 1)
	require.Equal(t, history.ReasonInvalid, r.Refused[0].Reason)
	found := find(t, s, query.Filter{})
	require.Len(t, found, 2)
	for _, f := range found {
		require.NotContains(t, f.Record.Object.Name, "another")
	}
}

// sharedName: two clusters with one name are distinguished by their UIDs, and counted (KR-16-39).
func sharedName(t *testing.T, s *history.Store) {
	a := Record(1, nil)
	b := Record(1, func(r *records.Record) { r.Cluster.UID = types.UID("cluster-2") })
	require.Equal(t, 2, insert(t, s, a, b).Stored)
	require.Len(t, find(t, s, query.Filter{Cluster: "prod"}), 2)
	require.Equal(t, []string{b.ID}, ids(find(t, s, query.Filter{Cluster: "cluster-2"})))
	stats, err := s.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{2, 1}, []int64{stats.Clusters, stats.SharedNames})
}
