package atrest

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
)

// event of the audit log: a write.
type event struct {
	Verb, RequestURI string
	User             struct{ Username string }
	ObjectRef        *struct{ APIGroup, Resource, Subresource, Name string }
	ResponseStatus   struct{ Code int }
}

// read a line; nil for what is no write of an object of ours.
func read(line []byte) (*event, error) {
	if !strings.Contains(string(line), `"level":"RequestResponse"`) {
		return nil, nil //nolint:nilnil // Most lines are none.
	}
	e := &event{}
	if err := json.Unmarshal(line, e); err != nil {
		return nil, err
	}
	if e.ObjectRef == nil || e.ResponseStatus.Code >= 300 || strings.Contains(e.RequestURI, "dryRun=") {
		return nil, nil //nolint:nilnil // It wrote nothing.
	}
	return e, nil
}

// byKausality reports whether a process of Kausality writes.
func (e *event) byKausality() bool {
	return strings.HasPrefix(e.User.Username, "system:serviceaccount:kausality-system:")
}

// applies reports whether Crossplane applies what it composes.
func (e *event) applies() bool {
	return e.ObjectRef.Subresource == "" && strings.Contains(e.RequestURI, "fieldManager=apiextensions.crossplane.io%2Fcomposed")
}

// encode a number as a Secret has it.
func encode(n int64) string {
	return base64.StdEncoding.EncodeToString([]byte(strconv.FormatInt(n, 10)))
}
