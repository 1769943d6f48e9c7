package query

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestParse: what Values writes Parse reads; what is unknown, twice or out of bounds is refused (KR-16-36).
func TestParse(t *testing.T) {
	want := Request{Filter: Filter{
		Cluster: "c", Kind: "Database.example.org", Namespace: "shop", Name: "orders", UID: "u", Type: "Vote", Initiator: "anna & co", Approver: "bert",
		Cause: "r7", External: "arn:x", Difference: "00", Since: time.Unix(1, 5000).UTC(), Until: time.Unix(9, 0).UTC(), StoredSince: time.Unix(2, 0).UTC(),
	}, Cursor: Cursor{At: -5, Seq: 7}.Encode(), Limit: 9}
	got, err := Parse(want.Values())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err = Parse(nil); err != nil || got.Limit != DefaultLimit {
		t.Errorf("an empty query: %v, limit %d", err, got.Limit)
	}
	for name, raw := range map[string]string{
		"Unknown": "nom=x", "Twice": "kind=a&kind=b", "NoKind": "name=x", "Limit": "limit=1001", "Zero": "limit=0", "Negative": "limit=-1",
		"Number": "limit=x", "Time": "since=yesterday", "Cursor": "cursor=%21", "CursorText": "cursor=eA", "Long": "kind=" + strings.Repeat("x", 3000),
	} {
		values, err := url.ParseQuery(raw)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(values); err == nil {
			t.Errorf("%s: %s is accepted", name, raw)
		}
	}
}

func FuzzDecodeCursor(f *testing.F) {
	f.Add(Cursor{At: 1, Seq: 2}.Encode())
	f.Fuzz(func(t *testing.T, s string) {
		c, err := DecodeCursor(s)
		if err != nil || c == nil {
			return
		}
		again, err := DecodeCursor(c.Encode())
		if err != nil || *again != *c {
			t.Errorf("%v became %v: %v", c, again, err)
		}
	})
}
