package query

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Limits of a page.
const (
	// DefaultLimit of the records of a page.
	DefaultLimit = 100
	// MaxLimit of the records of a page.
	MaxLimit = 1000
	// maxValue bounds a value of a filter, in bytes. An ARN has at most 2048.
	maxValue = 2048
)

// Filter selects records. An empty field selects all.
type Filter struct {
	// Cluster by its UID, or by its name, which several may have.
	Cluster string
	// Kind of the object with its group, as in Database.example.org, and Secret of the core group. With a Name also
	// records about children of that object.
	Kind string
	// Namespace of the object. With a Name it is exact: empty for a cluster-scoped object.
	Namespace string
	// Name of the object; it needs a Kind.
	Name string
	// UID of the object or of its parent.
	UID string
	// Type of the record, as in DriftHeld.
	Type string
	// Initiator of the change, by user name: the first of its trace, else who acted.
	Initiator string
	// Approver who voted for it, or whose approval allowed it, by user name.
	Approver string
	// Cause other than an intent, as in CompositionRevision/NAME, or by its name alone.
	Cause string
	// External name of the external resource.
	External string
	// Difference by the id by which it is approved.
	Difference string
	// Since and Until bound the time of the record, the former included, the latter not.
	Since, Until time.Time
	// StoredSince selects records that the store has received since then, whatever their own time.
	StoredSince time.Time
}

// texts returns the parameters of a URL that are text.
func (f *Filter) texts() map[string]*string {
	return map[string]*string{
		"cluster": &f.Cluster, "kind": &f.Kind, "namespace": &f.Namespace, "name": &f.Name, "uid": &f.UID,
		"type": &f.Type, "initiator": &f.Initiator, "approver": &f.Approver, "cause": &f.Cause, "external": &f.External,
		"difference": &f.Difference,
	}
}

// times returns the parameters of a URL that are times, RFC 3339.
func (f *Filter) times() map[string]*time.Time {
	return map[string]*time.Time{"since": &f.Since, "until": &f.Until, "storedSince": &f.StoredSince}
}

// Request is a Filter, and the page of the records that it selects, newest first.
type Request struct {
	Filter
	// Cursor of the previous page; empty for the first.
	Cursor string
	// Limit of the records; 0 for DefaultLimit.
	Limit int
}

// Values returns the values of a URL that Parse reads.
func (r Request) Values() url.Values {
	out := url.Values{}
	for k, v := range r.texts() {
		if *v != "" {
			out.Set(k, *v)
		}
	}
	for k, v := range r.times() {
		if !v.IsZero() {
			out.Set(k, v.UTC().Format(time.RFC3339Nano))
		}
	}
	if r.Cursor != "" {
		out.Set("cursor", r.Cursor)
	}
	if r.Limit > 0 {
		out.Set("limit", strconv.Itoa(r.Limit))
	}
	return out
}

// Parse parses the values of a URL. An unknown parameter, one that is given twice, and a value out
// of bounds are errors: a filter that is ignored would select too much.
func Parse(values url.Values) (Request, error) {
	r := Request{}
	texts, times := r.texts(), r.times()
	for k, list := range values {
		if len(list) != 1 || len(list[0]) > maxValue {
			return r, fmt.Errorf("parameter %s must be given once, with at most %d bytes", k, maxValue)
		}
		if err := r.set(k, list[0], texts, times); err != nil {
			return r, fmt.Errorf("parameter %s: %w", k, err)
		}
	}
	if r.Limit == 0 {
		r.Limit = DefaultLimit
	}
	if r.Name != "" && r.Kind == "" {
		return r, errors.New("parameter name needs the parameter kind")
	}
	_, err := DecodeCursor(r.Cursor)
	return r, err
}

// set sets one parameter.
func (r *Request) set(key, value string, texts map[string]*string, times map[string]*time.Time) (err error) {
	switch {
	case texts[key] != nil:
		*texts[key] = value
	case times[key] != nil:
		*times[key], err = time.Parse(time.RFC3339Nano, value)
	case key == "cursor":
		r.Cursor = value
	case key == "limit":
		if r.Limit, err = strconv.Atoi(value); err == nil && (r.Limit < 1 || r.Limit > MaxLimit) {
			err = fmt.Errorf("must be between 1 and %d", MaxLimit)
		}
	default:
		err = errors.New("is unknown")
	}
	return err
}

// Cursor is where the next page begins: after the record with this time and number.
type Cursor struct {
	// At is the time of the last record of a page, in microseconds since 1970.
	At int64
	// Seq is the number of that record in its store.
	Seq int64
}

// Encode encodes a cursor for a URL.
func (c Cursor) Encode() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d/%d", c.At, c.Seq))
}

// DecodeCursor of Encode; nil for an empty one.
func DecodeCursor(s string) (*Cursor, error) {
	if s == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(s)
	at, seq, _ := strings.Cut(string(raw), "/")
	c := Cursor{}
	var atErr, seqErr error
	c.At, atErr = strconv.ParseInt(at, 10, 64)
	c.Seq, seqErr = strconv.ParseInt(seq, 10, 64)
	if errors.Join(err, atErr, seqErr) != nil {
		return nil, errors.New("parameter cursor: it is none that this server has returned")
	}
	return &c, nil
}

// Page of records, newest first.
type Page struct {
	// Records as they were received, but for the names of users that were forgotten.
	Records []json.RawMessage `json:"records"`
	// Next is the cursor of the next page; empty at the end. A page may have fewer records
	// than its limit, even none, and a next one: records that the user may not see are left out.
	Next string `json:"next,omitempty"`
}

// Graph of the records that led to one, and that followed from it.
type Graph struct {
	// Records, oldest first. The edges are their causedBy.
	Records []json.RawMessage `json:"records"`
	// Truncated is true where there are more than the limit.
	Truncated bool `json:"truncated,omitempty"`
}

// Problem is what an answer other than 200 contains.
type Problem struct {
	// Reason for programs, as in Forbidden.
	Reason string `json:"reason"`
	// Message for users.
	Message string `json:"message"`
}

// Refusal of one record of a batch; the sender must not repeat it.
type Refusal struct {
	ID      string `json:"id,omitempty"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Receipt of a batch. All records that are neither refused nor known are stored durably.
type Receipt struct {
	// Stored are new records.
	Stored int `json:"stored"`
	// Known are records that the store has already.
	Known int `json:"known"`
	// Kept are records of a version that the store cannot read yet.
	Kept int `json:"kept,omitempty"`
	// Refused are records that will never be stored.
	Refused []Refusal `json:"refused,omitempty"`
}
