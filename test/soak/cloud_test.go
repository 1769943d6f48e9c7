package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/cloudstate"
	"github.com/kausality-io/function-kausality/test/provider/cloud"
)

// writes to the cloud.
type writes struct {
	// judged is the number of the last entry of its log that was.
	judged int64
	// databases by name, and the size that was written last of each, also of one that does not exist any more.
	databases map[string]*cloudstate.Database
	sizes     map[string]int64
}

const (
	// foreign is added to a size for one that no user requests, to which the cloud is changed.
	foreign = 1_000_000
	// ofEach is how many sizes a composite has.
	ofEach = 1000
	// approvedSize is the relation of what is reverted, from its approval on.
	approvedSize = "approved size"
)

// approvedTier is the relation of what has a tier, from its approval on.
func approvedTier(tier string) string { return "approved " + tier }

// judgeCloud: each write since the last call has a cause.
func (s *soak) judgeCloud(ctx context.Context) {
	log, err := the.Cloud.Log(ctx, s.cloud.judged)
	if err != nil {
		s.fail(broken, "the log of the cloud: %v", err)
		return
	}
	for _, e := range log {
		s.cloud.judged = e.Seq
		name := cloudstate.NameOf(e)
		if name == "" {
			continue
		}
		if err := s.judgeWrite(name, e); err != nil {
			s.fail(uncaused, "%s %s %s at %s: %v", e.Method, name, e.Body, e.Time.Format("15:04:05.000"), err)
		}
	}
}

// judgeWrite takes an entry, and returns an error where it is a write that has no cause. What is requested of a composite grows, and is written
// once; what is reverted or upgraded was approved, and what is deleted is being deleted.
func (s *soak) judgeWrite(name string, e cloud.Entry) error {
	if s.cloud.databases == nil {
		s.cloud.databases, s.cloud.sizes = map[string]*cloudstate.Database{}, map[string]int64{}
	}
	before := s.cloud.databases[name]
	if before == nil {
		before = &cloudstate.Database{}
		s.cloud.databases[name] = before
	}
	var err error
	if e.IsWrite() {
		err = s.judgeFields(name, before, e)
	}
	return errors.Join(err, before.Take(e))
}

func (s *soak) judgeFields(name string, before *cloudstate.Database, e cloud.Entry) error {
	expects := func(relation string) bool { return s.expects([]string{relation + "/Database/" + name}, e.Time) }
	if e.Method == http.MethodDelete {
		if !expects("") {
			return errors.New("no user requested its deletion")
		}
		return nil
	}
	body, values := cloudstate.Fields{}, cloud.DatabaseFields{}
	if err := errors.Join(json.Unmarshal(e.Body, &body), json.Unmarshal(e.Body, &values)); err != nil {
		return err
	}
	for _, field := range before.Changed(body) {
		last := s.cloud.sizes[name]
		switch tier := values.Tags["tier"]; {
		case field == "size" && s.requests(values.Size) && values.Size > last && (last == 0 || values.Size/ofEach == last/ofEach):
			if e.Succeeded() {
				s.cloud.sizes[name] = values.Size
			}
		case field == "size" && values.Size == last && expects(approvedSize):
		case field == "tags" && len(values.Tags) == 1 && tier != "" && (!before.Exists || expects(approvedTier(tier))):
		case field == "engine" && !before.Exists && values.Engine == cloud.DefaultEngine:
		default:
			return fmt.Errorf("no user requested another %s than %s", field, before.Fields[field])
		}
	}
	return nil
}

func (s *soak) requests(size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requested[size]
}

// TestWrites: what was requested is written once and in its order, and what was approved while it is.
func TestWrites(t *testing.T) {
	s := &soak{t: t, expected: map[string][]window{}, requested: map[int64]bool{1001: true, 1002: true, 2001: true}}
	write := func(method, body string) error {
		return s.judgeWrite("a", cloud.Entry{Kind: cloud.EntryRequest, Method: method, Path: "/databases/a", Body: []byte(body),
			Code: http.StatusOK, Time: time.Now()})
	}
	requires := func(body string) {
		t.Helper()
		require.ErrorContains(t, write(http.MethodPatch, body), "no user requested another", body)
	}
	require.Error(t, write(http.MethodDelete, ""))
	require.NoError(t, write(http.MethodPut, `{"size":1001,"tags":{"tier":"tier-1"}}`))
	require.NoError(t, write(http.MethodPatch, `{"size":1001}`), "it changes nothing")
	require.NoError(t, write(http.MethodPatch, `{"size":1002}`))
	requires(`{"size":1001}`)
	requires(`{"size":2001}`) // of another composite
	requires(`{"size":1003}`)
	requires(`{"tags":{"tier":"tier-2"}}`)
	s.expect(approvedTier("tier-2"), "Database", "a")
	require.NoError(t, write(http.MethodPatch, `{"tags":{"tier":"tier-2"}}`))
	requires(`{"tags":{"tier":"tier-3"}}`)
	require.NoError(t, s.judgeWrite("a", cloud.Entry{Kind: cloud.EntryBackdoor, Body: []byte(`{"name":"a","size":1000002}`), Code: http.StatusOK}))
	requires(`{"size":1002}`)
	s.expect(approvedSize, "Database", "a")
	require.NoError(t, write(http.MethodPatch, `{"size":1002}`))
	s.expect("", "Database", "a")
	require.NoError(t, write(http.MethodDelete, ""))
	requires(`{"size":1003}`)
}
