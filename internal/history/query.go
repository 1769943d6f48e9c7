package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	records "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/history/query"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// Found is a record that a query found.
type Found struct {
	// Cursor of what follows it.
	query.Cursor
	// Record, and its bytes with the fields that this program does not know.
	Record records.Record
	Raw    json.RawMessage
	// Stored is when the store received it, in microseconds since 1970.
	Stored int64
}

// Find finds records, newest first: at most limit of them after a cursor, nil for the beginning (KR-16-31).
func (s *Store) Find(ctx context.Context, f query.Filter, after *query.Cursor, limit int) ([]Found, error) {
	statement, args := s.selection(f, after)
	return s.find(ctx, statement+" LIMIT ?", append(args, limit)...)
}

// find finds the records that a statement selects.
func (s *Store) find(ctx context.Context, statement string, args ...any) ([]Found, error) {
	result, err := s.read.QueryContext(ctx, s.bind(statement), args...)
	if err != nil {
		return nil, fmt.Errorf("cannot find records: %w", err)
	}
	var out []Found
	err = each(result, func() error {
		f, raw := Found{}, ""
		if err := result.Scan(&f.At, &f.Seq, &f.Stored, &raw); err != nil {
			return err
		}
		f.Raw = json.RawMessage(raw)
		if f.Record, err = decodeStored(f.Raw); err == nil {
			out = append(out, f)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot find records: %w", err)
	}
	return out, nil
}

// columns of Found, in the order in which find scans them.
const columns = "record.at, record.seq, record.stored, record.raw"

// termsOf returns the terms of a filter, the one with the fewest records presumably first: it is read in the order of time.
func termsOf(f query.Filter) (out []string) {
	for _, t := range []struct{ prefix, value string }{
		{termDifference, f.Difference}, {termUID, f.UID}, {termExternal, f.External}, {termCause, causeTerm(f.Cause)},
		{termApprover, f.Approver}, {termInitiator, f.Initiator},
	} {
		if t.value != "" {
			out = append(out, t.prefix+t.value)
		}
	}
	if f.Name != "" {
		out = slices.Insert(out, min(len(out), 1), objectTerm(f.Kind, f.Namespace, f.Name))
	}
	return out
}

// selection returns the selection of a filter after a cursor.
func (s *Store) selection(f query.Filter, after *query.Cursor) (statement string, args []any) {
	var where []string
	and := func(condition string, values ...any) {
		where, args = append(where, condition), append(args, values...)
	}
	from, order := "record", "record"
	for n, t := range termsOf(f) {
		alias := fmt.Sprintf("t%d", n)
		if n == 0 {
			from, order = "term t0 JOIN record ON record.seq = t0.seq", alias
			and("t0.term = ?", t)
			continue
		}
		and("EXISTS (SELECT 1 FROM term "+alias+" WHERE "+alias+".term = ? AND "+alias+".at = record.at AND "+alias+".seq = record.seq)", t)
	}
	if f.Cluster != "" {
		and("record.cluster IN (SELECT uid FROM cluster WHERE uid = ? OR name = ?)", f.Cluster, f.Cluster)
	}
	if f.Name == "" && f.Kind != "" {
		and("record.kind = ?", f.Kind)
	}
	if f.Name == "" && f.Namespace != "" {
		and("record.namespace = ?", f.Namespace)
	}
	if f.Type != "" {
		and("record.type = ?", f.Type)
	}
	if !f.Since.IsZero() {
		and(order+".at >= ?", f.Since.UnixMicro())
	}
	if !f.Until.IsZero() {
		and(order+".at < ?", f.Until.UnixMicro())
	}
	if !f.StoredSince.IsZero() {
		and("record.stored >= ?", f.StoredSince.UnixMicro())
	}
	if after != nil {
		and("("+order+".at, "+order+".seq) < (?, ?)", after.At, after.Seq)
	}
	statement = "SELECT " + columns + " FROM " + from
	if len(where) > 0 {
		statement += " WHERE " + strings.Join(where, " AND ")
	}
	return statement + " ORDER BY " + order + ".at DESC, " + order + ".seq DESC", args
}

// Get gets a record by its id; nil for none.
func (s *Store) Get(ctx context.Context, id string) (*Found, error) {
	list, err := s.find(ctx, "SELECT "+columns+" FROM record WHERE id = ?", id)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// maxGraph bounds the records of a graph.
const maxGraph = 1000

// Graph returns the graph of the records that led to one, and of those that followed from it, with itself, oldest first; truncated where there are
// more than 1000. It is empty where there is no such record (KR-16-32).
func (s *Store) Graph(ctx context.Context, id string) (out []Found, truncated bool, err error) {
	origin, err := s.Get(ctx, id)
	if err != nil || origin == nil {
		return nil, false, err
	}
	seen := map[string]bool{id: true}
	out = []Found{*origin}
	for _, next := range []func(context.Context, []Found) ([]Found, error){s.before, s.following} {
		for level := []Found{*origin}; len(level) > 0; {
			found, err := next(ctx, level)
			if err != nil {
				return nil, false, err
			}
			level = slices.DeleteFunc(found, func(f Found) bool { return seen[f.Record.ID] })
			for _, f := range level {
				seen[f.Record.ID] = true
			}
			if out = append(out, level...); len(out) > maxGraph {
				out, truncated, level = out[:maxGraph], true, nil
			}
		}
	}
	slices.SortFunc(out, func(a, b Found) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Seq, b.Seq)) })
	return out, truncated, nil
}

// before returns the records that caused some.
func (s *Store) before(ctx context.Context, of []Found) ([]Found, error) {
	var ids []any
	for _, f := range of {
		for _, id := range f.Record.CausedBy {
			ids = append(ids, id)
		}
	}
	return s.each(ctx, "SELECT "+columns+" FROM record WHERE id IN ", "", ids)
}

// following returns the records that some caused.
func (s *Store) following(ctx context.Context, of []Found) ([]Found, error) {
	ids := lists.Map(of, func(f Found) any { return termCausedBy + f.Record.ID })
	return s.each(ctx, "SELECT "+columns+" FROM record WHERE seq IN (SELECT seq FROM term WHERE term IN ", fmt.Sprintf(" LIMIT %d)", maxGraph+1), ids)
}

// each of the records that a statement selects by values, in parts; each once.
func (s *Store) each(ctx context.Context, statement, end string, values []any) (out []Found, err error) {
	have := map[int64]bool{}
	for part := range slices.Chunk(values, chunk) {
		list, err := s.find(ctx, statement+rows(1, len(part))+end, part...)
		if err != nil {
			return nil, err
		}
		for _, f := range list {
			if !have[f.Seq] {
				have[f.Seq] = true
				out = append(out, f)
			}
		}
	}
	return out, nil
}
