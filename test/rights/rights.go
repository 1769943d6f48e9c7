package rights

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/auditlog"
)

// Prefix of the user names of the components, whose ServiceAccounts are in Kausality's own Namespace.
const Prefix = "system:serviceaccount:kausality-system:kausality-"

// Request of a user, as the API server's audit log has it.
type Request struct {
	Verb, RequestURI         string
	RequestReceivedTimestamp time.Time
	User                     struct{ Username string }
	ObjectRef                struct{ APIGroup, Resource, Subresource string }
	ResponseStatus           struct {
		Code    int
		Message string
	}
}

// Requests calls f for each request so far of a user whose name begins with a prefix, but for those with an omitted part in
// their line; "" omits none.
func Requests(t testing.TB, log, prefix, omitted string, f func(Request)) {
	t.Helper()
	require.NoError(t, auditlog.NewTail(log).Read(func(line []byte) error {
		if !bytes.Contains(line, []byte(`"username":"`+prefix)) || omitted != "" && bytes.Contains(line, []byte(omitted)) {
			return nil
		}
		var e Request
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		f(e)
		return nil
	}))
}

// Right to a verb on a resource, of a component.
type Right struct{ Component, Group, Resource, Verb string }

func (r Right) String() string {
	return fmt.Sprintf("%s: %s %s.%s", r.Component, r.Verb, r.Resource, r.Group)
}

// Used adds the rights that a request needed, of a user whose component is what follows a prefix. Lists are what clients fall back to where
// the API server does not stream them with a watch; an apply that creates needs the verb create; and
// escalate is needed for roles with rights that the writer does not have.
func Used(to map[Right]bool, prefix string, e Request) {
	if e.ResponseStatus.Code == 403 {
		return
	}
	r := Right{strings.TrimPrefix(e.User.Username, prefix), e.ObjectRef.APIGroup, e.ObjectRef.Resource, ""}
	if e.ObjectRef.Subresource != "" {
		r.Resource += "/" + e.ObjectRef.Subresource
	}
	verbs := []string{e.Verb}
	switch {
	case e.Verb == "watch":
		verbs = append(verbs, "list")
	case e.Verb == "patch" && e.ResponseStatus.Code == 201:
		verbs = append(verbs, "create")
	}
	if e.Verb == "patch" && r.Resource == "clusterroles" {
		verbs = append(verbs, "escalate")
	}
	for _, v := range verbs {
		r.Verb = v
		to[r] = true
	}
}

// Show that the rights which Elsewhere has for a test were used by the components, by the audit log of its control plane so far.
func Show(t testing.TB, log string) {
	t.Helper()
	used := map[Right]bool{}
	Requests(t, log, Prefix, "", func(e Request) { Used(used, Prefix, e) })
	shown := map[string]bool{}
	for r := range used {
		shown[r.String()] = true
	}
	n := 0
	for _, right := range slices.Sorted(maps.Keys(Elsewhere)) {
		if _, test, _ := strings.Cut(Elsewhere[right], "."); test != t.Name() {
			continue
		}
		if n++; !shown[right] {
			t.Errorf("%s is not used: what needs it? Remove it from the role, or from rights.Elsewhere if another test uses it", right)
		}
	}
	require.NotZero(t, n, "rights.Elsewhere has nothing for this test")
}
