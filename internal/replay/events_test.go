package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission"
)

// object in YAML.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// line of an audit log: a successful write by hans, with fields that replace
// those of the event.
func line(t *testing.T, verb string, o map[string]any, fields map[string]any) string {
	t.Helper()
	e := map[string]any{
		"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse", "stage": "ResponseComplete", "verb": verb,
		"requestURI": "/api/v1/namespaces/team/configmaps/a?fieldManager=kubectl", "user": map[string]any{"username": "hans", "groups": []string{"dev"}},
		"objectRef":                map[string]any{"namespace": "team", "name": "a"},
		"responseStatus":           map[string]any{"code": 200},
		"requestReceivedTimestamp": "2026-01-02T12:00:00.000001Z",
	}
	if o != nil {
		e["responseObject"] = o
	}
	maps.Copy(e, fields)
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw) + "\n"
}

// seen is what a test compares of a Change.
type seen struct {
	Line               int
	Operation          admission.Operation
	Name, User         string
	FieldManager       string
	Old, New           string // values of data.v; "-" where there is no object
	Status, Terminated bool
}

func seenOf(c *Change) seen {
	value := func(o *unstructured.Unstructured) string {
		if o == nil {
			return "-"
		}
		v, _, _ := unstructured.NestedString(o.Object, "data", "v")
		return v
	}
	return seen{Line: c.Line, Operation: c.Operation, Name: c.Name, User: c.User.Name, FieldManager: c.FieldManager, Old: value(c.OldObject), New: value(c.New),
		Status: c.Status, Terminated: c.New != nil && c.New.GetDeletionTimestamp() != nil}
}

// TestRead covers which events are changes, and what was stored before each
// (KR-10-10).
func TestRead(t *testing.T) {
	configMap := func(v, more string) map[string]any {
		return object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: team, name: a, uid: u`+more+`}, data: {v: "`+v+`"}}`)
	}
	other := object(t, `{apiVersion: v1, kind: Secret, metadata: {namespace: team, name: a, uid: w}, data: {v: x}}`)
	update := seen{Line: 2, Operation: admission.Update, Name: "a", User: "hans", FieldManager: "kubectl", Old: "1", New: "2"}
	first := seen{Line: 1, Operation: admission.Create, Name: "a", User: "hans", FieldManager: "kubectl", Old: "-", New: "1"}
	removed := seen{Line: 2, Operation: admission.Delete, Name: "a", User: "hans", FieldManager: "kubectl", Old: "1", New: "-"}
	created := line(t, "create", configMap("1", ""), nil)
	impersonated := update
	impersonated.User = "alice"
	terminated := removed
	terminated.New, terminated.Terminated = "1", true
	status := update
	status.Status = true
	unknown := update
	unknown.Line, unknown.Old = 1, "-"
	cases := map[string]struct {
		reason  string
		log     string
		want    []seen
		skipped int
	}{
		"Update":       {reason: "the old object is that of the line before", log: created + line(t, "update", configMap("2", ""), nil), want: []seen{first, update}},
		"Patch":        {reason: "as an update", log: created + line(t, "patch", configMap("2", ""), nil), want: []seen{first, update}},
		"FirstSeen":    {reason: "its state before is unknown", log: line(t, "patch", configMap("2", ""), nil), want: []seen{unknown}},
		"EmptyLines":   {reason: "are skipped and counted as lines", log: created + "\n" + line(t, "get", nil, nil), want: []seen{first}},
		"Reads":        {reason: "are no changes", log: line(t, "get", configMap("1", ""), nil) + line(t, "list", nil, nil)},
		"Refused":      {reason: "was not stored", log: line(t, "update", configMap("1", ""), map[string]any{"responseStatus": map[string]any{"code": 403}})},
		"Received":     {reason: "only the last stage counts", log: line(t, "update", configMap("1", ""), map[string]any{"stage": "RequestReceived"})},
		"NoObject":     {reason: "of level Metadata", log: line(t, "update", nil, nil), skipped: 1},
		"StatusObject": {reason: "the response is not the object", log: line(t, "update", object(t, `{apiVersion: v1, kind: Status}`), nil), skipped: 1},
		"DryRun":       {reason: "was not stored", log: line(t, "update", configMap("1", ""), map[string]any{"requestURI": "/x?dryRun=All"}), skipped: 1},
		"Scale": {
			reason: "the response is not the object", skipped: 1,
			log: line(t, "update", configMap("1", ""), map[string]any{"objectRef": map[string]any{"subresource": "scale"}}),
		},
		"Status": {
			reason: "changes no desired state",
			log:    created + line(t, "update", configMap("2", ""), map[string]any{"objectRef": map[string]any{"subresource": "status"}}),
			want:   []seen{first, status},
		},
		"Impersonated": {
			reason: "the impersonated user is who the webhook sees",
			log:    created + line(t, "update", configMap("2", ""), map[string]any{"impersonatedUser": map[string]any{"username": "alice"}}),
			want:   []seen{first, impersonated},
		},
		"DeletedStatus": {
			reason: "found by the UID of the reference",
			log: created + line(t, "delete", object(t, `{apiVersion: v1, kind: Status}`),
				map[string]any{"objectRef": map[string]any{"namespace": "team", "name": "a", "uid": "u"}}),
			want: []seen{first, removed},
		},
		"DeletedByName": {reason: "without a UID it is found by its name", log: created + line(t, "delete", nil, nil), want: []seen{first, removed}},
		"DeletedAmbiguous": {
			reason: "two objects have the name", skipped: 1,
			log:  created + line(t, "create", other, nil) + line(t, "delete", nil, nil),
			want: []seen{first, {Line: 2, Operation: admission.Create, Name: "a", User: "hans", FieldManager: "kubectl", Old: "-", New: "x"}},
		},
		"DeletedUnknown": {reason: "it was not seen before", log: line(t, "delete", nil, nil), skipped: 1},
		"Terminating": {
			reason: "a finalizer keeps it",
			log:    created + line(t, "delete", configMap("1", `, deletionTimestamp: "2026-01-02T12:00:00Z"`), nil),
			want:   []seen{first, terminated},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			changes, skipped, err := Read(strings.NewReader(tc.log))
			if err != nil {
				t.Fatal(err)
			}
			var got []seen
			for i := range changes {
				got = append(got, seenOf(&changes[i]))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || skipped != tc.skipped {
				t.Errorf("%s: skipped %d, want %d; -want, +got:\n%s", tc.reason, skipped, tc.skipped, diff)
			}
		})
	}
}

// TestReadErrors names the line.
func TestReadErrors(t *testing.T) {
	for name, tc := range map[string]struct{ second, want string }{
		"JSON": {second: "{", want: "cannot read line 2 of the audit log"},
		"Time": {second: `{"requestReceivedTimestamp": "noon"}`, want: "cannot read line 2 of the audit log: parsing time"},
	} {
		_, _, err := Read(strings.NewReader(line(t, "get", nil, nil) + tc.second))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: want %q, got %v", name, tc.want, err)
		}
	}
	if _, _, err := Read(strings.NewReader(strings.Repeat(" ", maxLine+1))); err == nil {
		t.Error("a line without end is no error")
	}
}

// FuzzRead: no log makes it panic, and each change has an object.
func FuzzRead(f *testing.F) {
	f.Add(`{"stage":"ResponseComplete","verb":"delete","objectRef":{"name":"a"},"responseStatus":{"code":200}}`)
	f.Add(fmt.Sprintf(`{"stage":"ResponseComplete","verb":"create","objectRef":{},"responseStatus":{},"responseObject":%s}`,
		`{"apiVersion":"v1","kind":"A","metadata":{"uid":"u"}}`))
	f.Fuzz(func(t *testing.T, log string) {
		changes, _, err := Read(strings.NewReader(log))
		if err != nil && changes != nil {
			t.Errorf("changes with error %v", err)
		}
		for i := range changes {
			if changes[i].New == nil && changes[i].OldObject == nil {
				t.Errorf("change %+v has no object", changes[i])
			}
		}
	})
}
