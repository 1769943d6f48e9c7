package v1alpha1

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Limits of the parts of a record; of texts in bytes as JSON has them.
const (
	maxName     = 253
	maxUID      = 64
	maxGroup    = 320
	maxKind     = 63
	maxWord     = 64
	maxUser     = 256
	maxText     = 512
	maxExternal = 512
	maxPath     = 256
	maxLinks    = 8
	maxHops     = 8
	maxPaths    = 32
	maxVotes    = 16
	maxCauses   = 4
	maxLabels   = 16
	maxVerbs    = 8
)

// Group of the object's API version; "" for the core group.
func (o Object) Group() string {
	gv, err := schema.ParseGroupVersion(o.APIVersion)
	if err != nil {
		return o.APIVersion
	}
	return gv.Group
}

// Bounded is the record with at most MaxBytes as Encode writes it, in valid UTF-8, and its time in
// UTC with microseconds. What is too long is cut; then, until it fits, parts are left out in a fixed order: labels, paths, the hops
// between, causes, approvers, message, trace, then the rest. Id, type, time, cluster and object stay. The same record gives
// the same result, and a result stays as it is (KR-16-01). The record itself is not changed.
func (r Record) Bounded() Record {
	c := &cutter{}
	out := c.record(r)
	for _, shorten := range shortenings {
		for out.size() > MaxBytes {
			if !shorten(&out) {
				break
			}
			out.Cut = true
		}
	}
	return out
}

// size in bytes of the record as JSON.
func (r Record) size() int {
	raw, err := r.json()
	if err != nil {
		return 0 // a time out of range, which validate refuses
	}
	return len(raw)
}

// shortenings of a record, by one step each; false once there is nothing left to leave out.
var shortenings = []func(*Record) bool{
	func(r *Record) bool {
		if len(r.Labels) == 0 {
			return false
		}
		keys := slices.Sorted(maps.Keys(r.Labels))
		if delete(r.Labels, keys[len(keys)-1]); len(r.Labels) == 0 { // the copy that the cutter made
			r.Labels = nil
		}
		return true
	},
	func(r *Record) bool { return shorter(&r.Paths, 4) },
	func(r *Record) bool { return between(&r.Trace) },
	func(r *Record) bool { return shorter(&r.Causes, 1) },
	func(r *Record) bool { return shorter(&r.Approvers, 2) },
	func(r *Record) bool { return none(&r.Message) },
	func(r *Record) bool { return shorter(&r.Trace, 0) },
	func(r *Record) bool { return shorter(&r.Paths, 0) },
	func(r *Record) bool { return shorter(&r.Causes, 0) },
	func(r *Record) bool { return shorter(&r.Approvers, 0) },
	func(r *Record) bool { return shorter(&r.Differences, 1) },
	func(r *Record) bool { return shorter(&r.CausedBy, 1) },
	func(r *Record) bool { return none(&r.Approval) },
	func(r *Record) bool { return none(&r.External) },
	func(r *Record) bool { return none(&r.Parent) },
	func(r *Record) bool { return shorter(&r.Verbs, 0) },
	func(r *Record) bool { return r.Actor != nil && (none(&r.Actor.Via) || none(&r.Actor.OnBehalfOf)) },
}

// shorter list by its last item, down to keep of them; nil for an empty one.
func shorter[T any](list *[]T, keep int) bool {
	if len(*list) <= keep {
		return false
	}
	if *list = (*list)[:len(*list)-1]; len(*list) == 0 {
		*list = nil
	}
	return true
}

// between leaves out the hop before the last one, down to origin and own.
func between(hops *[]Hop) bool {
	n := len(*hops)
	if n <= 2 {
		return false
	}
	*hops = slices.Delete(*hops, n-2, n-1)
	return true
}

func none[T comparable](value *T) bool {
	var zero T
	dropped := *value != zero
	*value = zero
	return dropped
}

// A cutter copies records, with each part within its limit.
type cutter struct{ cut bool }

func (c *cutter) record(r Record) Record {
	out := Record{
		Schema: c.text(r.Schema, maxWord), ID: c.text(r.ID, maxWord), Type: Type(c.text(string(r.Type), maxWord)),
		Time:    metav1.NewMicroTime(r.Time.UTC().Truncate(time.Microsecond)),
		Cluster: Cluster{Name: c.text(r.Cluster.Name, maxWord), UID: types.UID(c.text(string(r.Cluster.UID), maxUID))},
		Object:  c.object(r.Object), External: c.text(r.External, maxExternal), Operation: c.text(r.Operation, maxWord),
		CausedBy: texts(c, r.CausedBy, maxLinks, maxWord), Differences: texts(c, r.Differences, maxLinks, maxWord),
		Paths: texts(c, r.Paths, maxPaths, maxPath), Verbs: texts(c, r.Verbs, maxVerbs, maxWord),
		Reason: c.text(r.Reason, maxWord), Message: c.text(r.Message, maxText), Cut: r.Cut,
	}
	if r.Parent != nil {
		out.Parent = new(c.object(*r.Parent))
	}
	if a := r.Actor; a != nil {
		out.Actor = &Actor{User: c.text(a.User, maxUser), Via: c.text(a.Via, maxWord), OnBehalfOf: c.text(a.OnBehalfOf, maxUser)}
	}
	if a := r.Approval; a != nil {
		out.Approval = &Approval{Mode: c.text(a.Mode, maxWord), Policy: c.text(a.Policy, maxText), Rules: texts(c, a.Rules, maxLinks, maxText)}
	}
	out.Trace = c.hops(r.Trace)
	out.Approvers = each(c, r.Approvers, maxVotes, func(a Approver) Approver {
		return Approver{User: c.text(a.User, maxUser), Via: c.text(a.Via, maxWord), OnBehalfOf: c.text(a.OnBehalfOf, maxUser), BreakGlass: a.BreakGlass}
	})
	out.Causes = each(c, r.Causes, maxCauses, func(a Cause) Cause {
		return Cause{Kind: c.text(a.Kind, maxWord), Name: c.text(a.Name, maxName), Author: c.text(a.Author, maxUser)}
	})
	out.Labels = c.labels(r.Labels)
	out.Cut = out.Cut || c.cut
	return out
}

func (c *cutter) object(o Object) Object {
	return Object{
		APIVersion: c.text(o.APIVersion, maxGroup), Kind: c.text(o.Kind, maxKind), Namespace: c.text(o.Namespace, maxKind),
		Name: c.text(o.Name, maxName), UID: types.UID(c.text(string(o.UID), maxUID)), Generation: o.Generation,
	}
}

// hops of a trace: the first ones and the last ones.
func (c *cutter) hops(of []Hop) []Hop {
	if n := len(of); n > maxHops {
		c.cut = true
		of = slices.Concat(of[:maxHops/2], of[n-maxHops/2:])
	}
	return each(c, of, maxHops, func(h Hop) Hop {
		return Hop{
			Kind: c.text(h.Kind, maxKind), Namespace: c.text(h.Namespace, maxKind), Name: c.text(h.Name, maxName),
			Generation: h.Generation, User: c.text(h.User, maxUser), Unrequested: h.Unrequested,
		}
	})
}

// labels by their keys, the first ones in their order.
func (c *cutter) labels(of map[string]string) map[string]string {
	if len(of) == 0 {
		return nil
	}
	keys := slices.Sorted(maps.Keys(of))
	if len(keys) > maxLabels {
		c.cut = true
		keys = keys[:maxLabels]
	}
	out := make(map[string]string, len(keys))
	for _, k := range keys {
		if key := c.text(k, maxWord); key == k {
			out[key] = c.text(of[k], maxName)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// texts of a list, the first n, each of at most length bytes.
func texts(c *cutter, of []string, n, length int) []string {
	return each(c, of, n, func(s string) string { return c.text(s, length) })
}

// each of the first n items; nil for none.
func each[T any](c *cutter, of []T, n int, cut func(T) T) []T {
	if len(of) == 0 {
		return nil
	}
	if len(of) > n {
		c.cut = true
		of = of[:n]
	}
	out := make([]T, 0, len(of))
	for _, item := range of {
		out = append(out, cut(item))
	}
	return out
}

// text of at most n bytes in JSON, in valid UTF-8 and without NUL, which PostgreSQL stores in no text.
func (c *cutter) text(s string, n int) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if strings.ContainsRune(s, 0) {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	size := 0
	for i, r := range s {
		if size += quoted(r); size > n {
			c.cut = true
			return strings.Clone(s[:i])
		}
	}
	return s
}

// quoted is how many bytes a rune takes in JSON.
func quoted(r rune) int {
	switch {
	case r == '"', r == '\\', r == '\b', r == '\f', r == '\n', r == '\r', r == '\t':
		return 2
	case r < ' ', r == '\u2028', r == '\u2029':
		return 6
	case r == utf8.RuneError:
		return 6
	}
	return utf8.RuneLen(r)
}
