package adversary

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/auditlog"
)

// written is a version of an object, and who wrote it.
type written struct {
	*unstructured.Unstructured
	version int64
	// by whom, under which field manager: several where others repeated the write at once.
	by []writer
}

type writer struct {
	user string
	by   manager
}

// manager of an entry of managedFields.
type manager struct{ name, subresource string }

// stated is a write of a user that changed the desired state of an object: who may be the user of a hop.
type stated struct {
	user, kind, name string
	generation       int64
}

// auditEvent is what the audit log has about a write.
type auditEvent struct {
	RequestURI       string
	UserAgent        string
	User             struct{ Username string }
	ImpersonatedUser *struct{ Username string }
	ObjectRef        struct{ Resource, Subresource, Namespace, Name string }
	ResponseStatus   struct{ Code int }
	ResponseObject   json.RawMessage
}

// author of the request.
func (e auditEvent) author() string {
	if e.ImpersonatedUser != nil {
		return e.ImpersonatedUser.Username
	}
	return e.User.Username
}

// audited are the kinds whose writes are read from the audit log.
var audited = []string{"xdatabases.example.org", "databases.cloud.example.org", "objects.kubernetes.m.crossplane.io", "secrets",
	"drifts.kausality.io", "events", "events.events.k8s.io"}

// A ledger has the versions of the objects of each Namespace, by the audit log of the API server: neither Kausality nor any client can
// change it.
type ledger struct {
	tail *auditlog.Tail
	// versions by Namespace, and resource and name.
	versions map[string]map[string][]written
}

// read what was written since.
func (l *ledger) read(t *testing.T) {
	t.Helper()
	require.NoError(t, l.tail.Read(func(line []byte) error {
		if !strings.Contains(string(line), `"responseObject":{`) {
			return nil
		}
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		return l.add(e)
	}))
}

func (l *ledger) add(e auditEvent) error {
	at, err := url.Parse(e.RequestURI)
	if err != nil {
		return err
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(e.ResponseObject); err != nil {
		return nil //nolint:nilerr // It is a list.
	}
	version, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if e.ResponseStatus.Code >= 300 || o.GetKind() == "PartialObjectMetadata" || at.Query().Has("dryRun") || o.GetName() == "" || err != nil {
		return nil //nolint:nilerr // A Status, or a list, has no version.
	}
	of := l.versions[e.ObjectRef.Namespace]
	if of == nil {
		of = map[string][]written{}
		l.versions[e.ObjectRef.Namespace] = of
	}
	key := e.ObjectRef.Resource + "/" + o.GetName()
	name := at.Query().Get("fieldManager")
	if name == "" { // the API server's default
		name, _, _ = strings.Cut(e.UserAgent, "/")
	}
	of[key] = append(of[key], written{o, version, []writer{{e.author(), manager{name, e.ObjectRef.Subresource}}}})
	return nil
}

// objects of a Namespace, their versions in order, each once. A write that changes nothing is answered with the version before: who made
// that is one whose field manager has another entry in it.
func (l *ledger) objects(namespace string) map[string][]written {
	out := map[string][]written{}
	for key, all := range l.versions[namespace] {
		sorted := slices.Clone(all)
		slices.SortStableFunc(sorted, func(a, b written) int { return int(a.version - b.version) })
		var versions []written
		for _, v := range sorted {
			if n := len(versions); n > 0 && versions[n-1].version == v.version {
				versions[n-1].by = slices.Concat(versions[n-1].by, v.by)
				continue
			}
			versions = append(versions, v)
		}
		for i := range versions {
			var before *unstructured.Unstructured
			if i > 0 {
				before = versions[i-1].Unstructured
			}
			changed := managersOf(before, versions[i].Unstructured)
			if made := slices.DeleteFunc(slices.Clone(versions[i].by), func(w writer) bool { return !changed[w.by] }); len(made) > 0 {
				versions[i].by = made
			}
		}
		out[key] = versions
	}
	return out
}

// managersOf the entries of managedFields that a version has and the one before has not. An entry that only lost fields to another
// manager keeps its time.
func managersOf(before, after *unstructured.Unstructured) map[manager]bool {
	had := map[string]bool{}
	id := func(m metav1.ManagedFieldsEntry) string {
		return fmt.Sprint(m.Manager, m.Operation, m.Subresource, m.Time)
	}
	if before != nil {
		for _, m := range before.GetManagedFields() {
			had[id(m)] = true
		}
	}
	out := map[manager]bool{}
	for _, m := range after.GetManagedFields() {
		if !had[id(m)] {
			out[manager{m.Manager, m.Subresource}] = true
		}
	}
	return out
}

// statements of a Namespace: the writes that changed desired state.
func (l *ledger) statements(namespace string) map[stated]bool {
	out := map[stated]bool{}
	for _, versions := range l.objects(namespace) {
		for i, v := range versions {
			if i > 0 && !desires(versions[i-1].Unstructured, v.Unstructured) {
				continue
			}
			for _, w := range v.by {
				out[stated{w.user, v.GetKind(), v.GetName(), v.GetGeneration()}] = true
			}
		}
	}
	return out
}

// desires reports whether what is desired differs: by the generation, the data of a kind without one, or the external name.
func desires(before, after *unstructured.Unstructured) bool {
	name := func(o *unstructured.Unstructured) string {
		return o.GetAnnotations()[v1alpha1.AnnotationKeyExternalName]
	}
	return before.GetUID() != after.GetUID() || before.GetGeneration() != after.GetGeneration() || name(before) != name(after) ||
		!reflect.DeepEqual(before.Object["data"], after.Object["data"])
}

// judgeSecrets: a Secret that is composed, or the external resource of an Object, has the password that it had when the composite
// settled, and a size that a user requested since.
func (r *run) judgeSecrets() {
	r.t.Helper()
	objects := the.ledger.objects(r.ns)
	for _, name := range []string{"secrets/settings", "secrets/login"} {
		versions := objects[name]
		if len(versions) == 0 {
			r.fail("the audit log has no %s, but %v", name, slices.Sorted(maps.Keys(objects)))
			continue
		}
		before := versions[0]
		for _, v := range versions[1:] {
			r.judgeSecret(name, before, v)
			r.judgeSecrecy(v.Unstructured)
			before = v
		}
		_, err := r.of("", secrets).Get(r.t.Context(), path.Base(name), metav1.GetOptions{})
		if name == "secrets/settings" && err != nil && !r.approvedXR {
			r.fail("%s, the external resource of an Object: %v", name, err)
		}
	}
}

func (r *run) judgeSecret(name string, before, after written) {
	r.t.Helper()
	was, _ := before.Object["data"].(map[string]any)
	is, _ := after.Object["data"].(map[string]any)
	what := fmt.Sprintf("%s, version %d, by %v", name, after.version, after.by)
	if maps.EqualFunc(was, is, func(a, b any) bool { return a == b }) {
		return // metadata
	}
	// It was deleted, and its creation, or what fills an empty one that a user created instead, has what is composed by now.
	if before.GetUID() != after.GetUID() || len(was) == 0 {
		edited := slices.ContainsFunc(after.by, func(w writer) bool { return slices.Contains(r.editors(), w.user) })
		if !r.loud && !r.recovering && !edited {
			r.fail("%s: no user requested that it is created again", what)
		}
		if !edited {
			r.judgeComposed(what, path.Base(name), is)
		}
		return
	}
	for _, key := range slices.Sorted(maps.Keys(is)) {
		if was[key] == is[key] {
			continue
		}
		if key != "size" {
			r.fail("%s: no user requested another %s", what, key)
			continue
		}
		if size := decodedSize(is[key]); r.userOf(size) == "" || !r.mayArrive(size) {
			r.fail("%s: no user requested size %d since", what, size)
		}
	}
	if len(is) < len(was) {
		r.fail("%s: it has %d keys of %d", what, len(is), len(was))
	}
}

// judgeComposed: a Secret that is created again has a password that a revision of the Composition has for it, and a size that a user requested.
func (r *run) judgeComposed(what, name string, data map[string]any) {
	r.t.Helper()
	for _, key := range []string{"password", "size"} {
		if data[key] == nil {
			r.fail("%s: it has no %s", what, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		switch key {
		case "password":
			text, _ := data[key].(string)
			raw, err := base64.StdEncoding.DecodeString(text)
			if err != nil || !passwords(name).Match(raw) {
				r.fail("%s: no revision has its password", what)
			}
		case "size":
			if size := decodedSize(data[key]); r.userOf(size) == "" {
				r.fail("%s: no user requested size %d", what, size)
			}
		default:
			r.fail("%s: nothing composes %s", what, key)
		}
	}
}

// judgeLedger by the audit log: each hop of a composed Secret is a write that its user made, and no version of what is reported has what is
// secret, also of those that were deleted.
func (r *run) judgeLedger(statements map[stated]bool) {
	r.t.Helper()
	reported := map[string]int{"drifts/": 0, "events/": 0}
	for key, versions := range the.ledger.objects(r.ns) {
		resource, name := path.Split(key)
		for _, v := range versions {
			switch {
			case key == "secrets/login":
				r.judgeHops(statements, v.Unstructured)
				r.judgeApproval(v.Unstructured)
			case resource == "drifts/" || resource == "events/":
				if slices.ContainsFunc(v.by, func(w writer) bool { return strings.HasPrefix(w.user, "system:serviceaccount:kausality-system:") }) {
					reported[resource]++
				}
				raw, err := v.MarshalJSON()
				require.NoError(r.t, err)
				if secret(raw) {
					r.fail("%s %s has what is secret: %s", resource, name, raw)
				}
			}
		}
	}
	for resource, n := range reported {
		if n == 0 { // a difference outside is
			r.fail("the audit log has no %s of Kausality", resource)
		}
	}
}
