package replay

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/subject"
)

// event is what is read of an audit event (audit.k8s.io/v1).
type event struct {
	Stage            auditv1.Stage            `json:"stage"`
	RequestURI       string                   `json:"requestURI"`
	Verb             string                   `json:"verb"`
	User             authnv1.UserInfo         `json:"user"`
	ImpersonatedUser *authnv1.UserInfo        `json:"impersonatedUser"`
	ObjectRef        *auditv1.ObjectReference `json:"objectRef"`
	ResponseStatus   *metav1.Status           `json:"responseStatus"`
	ResponseObject   *rawObject               `json:"responseObject"`
	// Received is RFC 3339 with any fraction: not only the API server writes such logs.
	Received time.Time `json:"requestReceivedTimestamp"`
}

// rawObject keeps integers, which a plain map would decode as float64: ids of
// differences and generations depend on them.
type rawObject struct{ *unstructured.Unstructured }

// UnmarshalJSON reads any object. What is no object, and the Status that answers a
// DELETE, leaves it empty: one such event must not end the reading of a log.
func (r *rawObject) UnmarshalJSON(data []byte) error {
	o := &unstructured.Unstructured{}
	if o.UnmarshalJSON(data) == nil && o.GetKind() != "Status" {
		r.Unstructured = o
	}
	return nil
}

// Change that was recorded.
type Change struct {
	admission.Request
	// Line of the log.
	Line int
	// New state of the object; nil where it was deleted.
	New *unstructured.Unstructured
	// Status: only the status was written.
	Status bool
}

// maxLine of an audit log, in bytes.
const maxLine = 16 << 20

// Read an audit log: one event per line, with objects (level RequestResponse).
// The state of an object before a change is the one that the log showed before;
// of an object that it shows for the first time, the change is not known, only
// what it left. skipped counts successful writes whose object the log does not hold.
func Read(in io.Reader) (changes []Change, skipped int, err error) {
	known := map[types.UID]*unstructured.Unstructured{}
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 0, 1<<20), maxLine)
	for line := 1; scanner.Scan(); line++ {
		if len(scanner.Bytes()) == 0 {
			continue
		}
		var e event
		if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
			return nil, 0, fmt.Errorf("cannot read line %d of the audit log: %w", line, err)
		}
		if !e.wrote() {
			continue
		}
		c, ok := e.change(known)
		if !ok {
			skipped++
			continue
		}
		c.Line = line
		changes = append(changes, c)
	}
	if err := scanner.Err(); err != nil {
		return nil, 0, fmt.Errorf("cannot read the audit log: %w", err)
	}
	return changes, skipped, nil
}

// wrote reports whether an event is a write that succeeded.
func (e *event) wrote() bool {
	return e.Stage == auditv1.StageResponseComplete && e.ObjectRef != nil && e.ResponseStatus != nil && e.ResponseStatus.Code < 300 &&
		slices.Contains([]string{"create", "update", "patch", "delete"}, e.Verb)
}

// change that an event records; known are the latest versions of all objects, which it
// updates. false where the object is missing in the log, for a dry-run and for
// subresources other than status, whose objects are not those that are stored.
func (e *event) change(known map[types.UID]*unstructured.Unstructured) (Change, bool) {
	dry, manager := e.options()
	if dry || e.ObjectRef.Subresource != "" && e.ObjectRef.Subresource != "status" {
		return Change{}, false
	}
	u := e.User
	if e.ImpersonatedUser != nil {
		u = *e.ImpersonatedUser
	}
	c := Change{Status: e.ObjectRef.Subresource == "status"}
	c.User = subject.User{Name: u.Username, UID: u.UID, Groups: u.Groups}
	for k, v := range u.Extra {
		if c.User.Extra == nil {
			c.User.Extra = map[string][]string{}
		}
		c.User.Extra[k] = v
	}
	c.Time, c.FieldManager, c.Namespace, c.Name = e.Received, manager, e.ObjectRef.Namespace, e.ObjectRef.Name
	var o *unstructured.Unstructured
	if e.ResponseObject != nil {
		o = e.ResponseObject.Unstructured
	}
	if e.Verb == "delete" {
		return e.deletion(c, o, known)
	}
	if o == nil || o.GetUID() == "" {
		return Change{}, false
	}
	c.New, c.Kind, c.Name = o, o.GroupVersionKind(), o.GetName()
	c.Object, c.OldObject, c.Operation = o, known[o.GetUID()], admission.Update
	if e.Verb == "create" {
		c.OldObject, c.Operation = nil, admission.Create
	}
	known[o.GetUID()] = o
	return c, true
}

// deletion of an object that the log showed before.
func (e *event) deletion(c Change, o *unstructured.Unstructured, known map[types.UID]*unstructured.Unstructured) (Change, bool) {
	uid := e.ObjectRef.UID
	if o != nil {
		uid = o.GetUID()
	}
	old := known[uid]
	if old == nil {
		old = find(known, e.ObjectRef)
	}
	if old == nil {
		return Change{}, false
	}
	c.Operation, c.OldObject, c.Kind = admission.Delete, old, old.GroupVersionKind()
	if o != nil && o.GetDeletionTimestamp() != nil {
		c.New = o
		known[uid] = o
	} else {
		delete(known, old.GetUID())
	}
	return c, true
}

// find the one object of a namespace and name, for an event without UID and object,
// as the answer to a DELETE may be; nil where there are several. The kind is not
// compared: the event has a plural, which cannot be converted without discovery.
func find(known map[types.UID]*unstructured.Unstructured, ref *auditv1.ObjectReference) *unstructured.Unstructured {
	var found *unstructured.Unstructured
	for _, o := range known {
		if o.GetNamespace() == ref.Namespace && o.GetName() == ref.Name {
			if found != nil {
				return nil
			}
			found = o
		}
	}
	return found
}

// options in the query of the request.
func (e *event) options() (dry bool, manager string) {
	u, err := url.Parse(e.RequestURI)
	if err != nil {
		return false, ""
	}
	return u.Query().Get("dryRun") != "", u.Query().Get("fieldManager")
}

// gk of an object.
func gk(o *unstructured.Unstructured) schema.GroupKind { return o.GroupVersionKind().GroupKind() }
