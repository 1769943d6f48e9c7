package adversary

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/cloudstate"
	"github.com/kausality-io/function-kausality/test/e2e/story"
	"github.com/kausality-io/function-kausality/test/provider/cloud"
)

// about is the name of the database that an entry is about, if it is one of this run and no read.
func (r *run) about(e cloud.Entry) string {
	if name := cloudstate.NameOf(e); strings.HasPrefix(name, r.ns+"-") || slices.Contains(r.history[story.Databases].Names(), name) {
		return name
	}
	return ""
}

var composedTags = regexp.MustCompile(`^\{"tier": ?"tier-\d+"\}$`)

// judgeCloud: each field of each write that the provider sent since the adversaries began.
func (r *run) judgeCloud() {
	r.t.Helper()
	log, err := the.Cloud.Log(r.t.Context(), r.begin)
	require.NoError(r.t, err)
	all := map[string]*cloudstate.Database{}
	for _, e := range log {
		name := r.about(e)
		if name == "" {
			continue
		}
		d := all[name]
		if d == nil {
			d = &cloudstate.Database{}
			all[name] = d
		}
		if e.IsWrite() && e.Seq > r.from && !r.judged[e.Seq] {
			r.judged[e.Seq] = true
			r.judgeWrite(name, d, e)
		}
		if err := d.Take(e); err != nil {
			r.fail("%s %s %s: %v", e.Method, name, e.Body, err)
		}
	}
}

func (r *run) judgeWrite(name string, before *cloudstate.Database, e cloud.Entry) {
	r.t.Helper()
	what := fmt.Sprintf("%s %s %s at %s", e.Method, name, e.Body, e.Time.Format("05.000"))
	if e.Method == http.MethodDelete {
		if !r.mayGo(name) {
			r.fail("%s: no approval was given for it", what)
		}
		return
	}
	body := cloudstate.Fields{}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		r.fail("%s: %v", what, err)
		return
	}
	changed := before.Changed(body)
	switch {
	case !before.Exists: // a creation has the tags that are composed, of a revision
		if tags := string(body["tags"]); tags != "" && tags != "null" && !composedTags.MatchString(tags) {
			r.fail("%s: nothing composes the tags", what)
		}
		if engine := string(body["engine"]); engine != "" && engine != strconv.Quote(cloud.DefaultEngine) {
			r.fail("%s: nothing composes the engine", what)
		}
		changed = slices.DeleteFunc(changed, func(f string) bool { return f != "size" })
	case r.reverted[name]: // alice approved the way back from a drift to what is desired, whatever that is, once
		r.reverted[name] = false
		for _, field := range changed {
			if !r.desired(name, field, body[field]) {
				r.fail("%s: no version of the managed resource has this %s", what, field)
			}
		}
		return
	}
	if len(changed) == 0 {
		r.fail("%s: it changes nothing", what)
	}
	for _, field := range changed {
		if field != "size" && r.wroteField(name, field, body[field]) {
			continue
		}
		if field != "size" {
			r.fail("%s: no user requested another %s than %s", what, field, before.Fields[field])
			continue
		}
		if why := r.unrequested(name, body[field], e.Time); why != "" {
			r.fail("%s: %s", what, why)
		}
	}
}

// wroteField reports whether an editor gave a field of a managed resource for an external name a value by a write of their own: also the
// removal of what Crossplane had applied, under its field manager.
func (r *run) wroteField(external, field string, value json.RawMessage) bool {
	if !r.loud {
		return false
	}
	for key, versions := range the.ledger.objects(r.ns) {
		if !strings.HasPrefix(key, story.Databases.Resource+"/") || !slices.ContainsFunc(versions, func(v written) bool {
			return v.GetAnnotations()[v1alpha1.AnnotationKeyExternalName] == external
		}) {
			continue
		}
		for i := 1; i < len(versions); i++ {
			was, is := &cloudstate.Database{Fields: desired(versions[i-1].Unstructured)}, desired(versions[i].Unstructured)
			if is[field] == nil {
				is[field] = json.RawMessage("null")
			}
			now := &cloudstate.Database{Fields: is}
			if slices.Contains(was.Changed(is), field) && len(now.Changed(cloudstate.Fields{field: value})) == 0 &&
				slices.ContainsFunc(versions[i].by, func(w writer) bool { return slices.Contains(r.editors(), w.user) }) {
				return true
			}
		}
	}
	return false
}

// desired reports whether a version of the managed resource for an external name has a value of a field.
func (r *run) desired(external, field string, value json.RawMessage) bool {
	for key, versions := range the.ledger.objects(r.ns) {
		if strings.HasPrefix(key, story.Databases.Resource+"/") && slices.ContainsFunc(versions, func(v written) bool {
			is := &cloudstate.Database{Fields: desired(v.Unstructured)}
			return v.GetAnnotations()[v1alpha1.AnnotationKeyExternalName] == external && len(is.Changed(cloudstate.Fields{field: value})) == 0
		}) {
			return true
		}
	}
	return false
}

// desired fields of a managed resource.
func desired(o *unstructured.Unstructured) cloudstate.Fields {
	spec, _, _ := unstructured.NestedMap(o.Object, "spec", "forProvider")
	out := cloudstate.Fields{}
	for k, v := range spec {
		raw, err := json.Marshal(v)
		if err == nil {
			out[k] = raw
		}
	}
	return out
}

// unrequested returns why a size that was written to a database outside was not requested; empty where it was.
func (r *run) unrequested(name string, raw json.RawMessage, at time.Time) string {
	size, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return err.Error()
	}
	user := r.userOf(size)
	switch {
	case user == "":
		return "no user requested it"
	case user == story.Hans && !r.mayArrive(size):
		return "hans requested it before, and did not again"
	case r.loud && slices.ContainsFunc(r.editors(), func(u string) bool { return r.carried(name, u, size, at) }):
		return "" // the last intent, of an adversary, let through what Crossplane composes by now
	case !r.carried(name, user, size, at):
		return user + " requested it, and no version of the managed resource names that user"
	}
	return ""
}

// userOf a size: who requested it.
func (r *run) userOf(size int64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sizes[size].user
}

// since reports whether a size was requested after the adversaries began.
func (r *run) since(size int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sizes[size].late
}

// mayArrive reports whether a size may be written outside: it was requested since the adversaries began, or an intent of an adversary on an
// object brings what Crossplane composes by then.
func (r *run) mayArrive(size int64) bool { return r.loud || r.since(size) }

func decodedSize(encoded any) int64 {
	text, _ := encoded.(string)
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(string(raw), 10, 64) // 0 is no size
	return n
}

// lag is how old the provider's copy of a managed resource may be.
const lag = 10 * time.Second

// carried reports whether a managed resource for an external name had a size at a
// time, with a trace that names a user.
func (r *run) carried(external, user string, size int64, at time.Time) bool {
	h := r.history[story.Databases]
	for _, name := range h.Names() {
		versions, err := h.Current(name, at, lag)
		require.NoError(r.t, err)
		for _, o := range versions {
			n, _, _ := unstructured.NestedInt64(o.Object, "spec", "forProvider", "size")
			if o.GetAnnotations()[v1alpha1.AnnotationKeyExternalName] != external || n != size {
				continue
			}
			if hops, err := story.Trace(o); err == nil && slices.ContainsFunc(hops, func(h v1alpha1.Hop) bool { return h.User == user }) {
				return true
			}
		}
	}
	return false
}

// mayGo reports whether a database may be deleted outside: its deletion was approved, or that of the composite.
func (r *run) mayGo(name string) bool {
	return name == r.scratch() && r.approved || (name == r.managed || slices.Contains(r.former, name)) && r.approvedXR
}
