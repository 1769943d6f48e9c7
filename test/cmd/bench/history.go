package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	recordsv1alpha1 "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/history"
	"github.com/kausality-io/function-kausality/internal/history/query"
	"github.com/kausality-io/function-kausality/test/controlplane/postgres"
)

// The records of the benchmark: of some clusters, objects and users, within 90 days.
const (
	historyClusters = 100
	historyBatch    = 500
	historyQueries  = 300
	// historyRevision is how many records one revision of a Composition causes.
	historyRevision = 1000
)

// historyAims are bounds of the figures.
var historyAims = struct {
	rate       float64
	who, cause time.Duration
}{rate: 5000, who: 100 * time.Millisecond, cause: time.Second}

// historyBench stores records and answers queries, in SQLite, and in PostgreSQL where the machine has it.
func historyBench(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "bench-history")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	err = historyIn(ctx, "SQLite", filepath.Join(dir, "history.db"), o)
	server, startErr := postgres.Start(ctx)
	if errors.Is(startErr, postgres.ErrNone) {
		fmt.Println("PostgreSQL: not measured:", startErr)
		return err
	}
	if startErr != nil {
		return errors.Join(err, startErr)
	}
	url, dbErr := server.Database(ctx)
	if dbErr == nil {
		dbErr = historyIn(ctx, "PostgreSQL", url, o)
	}
	return errors.Join(err, dbErr, server.Stop())
}

// historyIn a store.
func historyIn(ctx context.Context, name, location string, o options) (err error) {
	s, err := history.Open(ctx, location, history.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	g := &recordMaker{rand: rand.New(rand.NewPCG(1, 2)), start: time.Now().Add(-90 * 24 * time.Hour), n: o.records}
	spent := time.Duration(0)
	for done := 0; done < o.records; done += historyBatch {
		batch := g.batch(min(historyBatch, o.records-done))
		start := time.Now()
		receipt, err := s.Insert(ctx, "bench", batch)
		if err != nil {
			return err
		}
		spent += time.Since(start)
		if receipt.Stored != len(batch) {
			return fmt.Errorf("%d of %d records are stored", receipt.Stored, len(batch))
		}
	}
	rate := float64(o.records) / spent.Seconds()
	who, err := timed(historyQueries, func(n int) error {
		object := g.object(n * 37)
		_, err := s.Find(ctx, query.Filter{Kind: "Database.example.org", Namespace: object.Namespace, Name: object.Name, Since: g.start}, nil, query.DefaultLimit)
		return err
	})
	if err != nil {
		return err
	}
	cause, err := timed(10, func(n int) error { return all(ctx, s, query.Filter{Cause: g.revision(n)}) })
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d records: %.0f stored a second (aim %.0f); who changed an object: p50 %s, p95 %s (aim %s); what a revision changed: p95 %s (aim %s)\n",
		name, o.records, rate, historyAims.rate, at(who, 50), at(who, 95), historyAims.who, at(cause, 95), historyAims.cause)
	if rate < historyAims.rate || at(who, 95) > historyAims.who || at(cause, 95) > historyAims.cause {
		return fmt.Errorf("%s misses an aim", name)
	}
	return nil
}

// all records of a filter, over all pages.
func all(ctx context.Context, s *history.Store, f query.Filter) error {
	n := 0
	var after *query.Cursor
	for {
		page, err := s.Find(ctx, f, after, query.MaxLimit)
		if err != nil {
			return err
		}
		if n += len(page); len(page) < query.MaxLimit {
			if n == 0 {
				return fmt.Errorf("no records of %+v", f)
			}
			return nil
		}
		after = &page[len(page)-1].Cursor
	}
}

// timed calls of f, sorted.
func timed(n int, f func(n int) error) ([]time.Duration, error) {
	out := make([]time.Duration, 0, n)
	for i := range n {
		start := time.Now()
		if err := f(i); err != nil {
			return nil, err
		}
		out = append(out, time.Since(start))
	}
	slices.Sort(out)
	return out, nil
}

// at a percentile of sorted durations.
func at(sorted []time.Duration, percent int) time.Duration {
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)].Round(10 * time.Microsecond)
}

// recordMaker makes records in the order of time.
type recordMaker struct {
	rand  *rand.Rand
	start time.Time
	// n records in 90 days.
	n, made int
	last    string
}

// object by its number: each has about 50 records.
func (g *recordMaker) object(n int) recordsv1alpha1.Object {
	n %= max(1, g.n/50)
	return recordsv1alpha1.Object{
		APIVersion: "example.org/v1", Kind: "Database", Namespace: fmt.Sprintf("team-%d", n%200), Name: fmt.Sprintf("orders-%d", n),
		UID: types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", n)),
	}
}

func (g *recordMaker) revision(n int) string {
	return fmt.Sprintf("databases-%d", n%max(1, g.n/historyRevision))
}

// batch of n records.
func (g *recordMaker) batch(n int) []history.Delivery {
	out := make([]history.Delivery, 0, n)
	for range n {
		r := recordsv1alpha1.Record{
			Type: recordsv1alpha1.TypeDriftHeld, Time: metav1.NewMicroTime(g.start.Add(time.Duration(g.made) * (90 * 24 * time.Hour / time.Duration(g.n)))),
			Cluster: recordsv1alpha1.Cluster{Name: "prod", UID: types.UID(fmt.Sprintf("cluster-%d", g.made%historyClusters))},
			Object:  g.object(g.rand.IntN(g.n)), Reason: "Drift", Operation: "UPDATE", Paths: []string{"spec.forProvider.size"},
			Trace:     []recordsv1alpha1.Hop{{Kind: "XDatabase", Name: "orders", Generation: 7, User: fmt.Sprintf("user-%d@example.com", g.rand.IntN(500))}},
			Approvers: []recordsv1alpha1.Approver{{User: fmt.Sprintf("approver-%d@example.com", g.rand.IntN(50))}},
			Causes:    []recordsv1alpha1.Cause{{Kind: "CompositionRevision", Name: g.revision(g.rand.IntN(g.n))}},
			External:  fmt.Sprintf("arn:aws:rds:eu-central-1:123456789012:db:orders-%d", g.rand.IntN(g.n)),
		}
		r.ID = recordsv1alpha1.ID(r.Cluster, r.Object, r.Type, r.Time.Time, fmt.Sprint(g.made))
		if g.last != "" {
			r.CausedBy = []string{g.last}
		}
		g.last, g.made = r.ID, g.made+1
		raw, err := recordsv1alpha1.Encode(r)
		if err != nil {
			panic(err) // of the benchmark itself
		}
		out = append(out, history.Delivery{Raw: raw, ID: r.ID})
	}
	return out
}
