package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// suggested approval in a message.
var suggested = regexp.MustCompile(`kausality\.io/approve-([0-9a-f]{16})`)

// request of a step, repeated until the answer is as expected if the step has
// within.
func (p *play) request(ctx context.Context, s *Step) error {
	as, err := p.suite.actor(s.As)
	if err != nil {
		return err
	}
	if err := p.expandActor(ctx, &as); err != nil {
		return err
	}
	if as.Agent == "" {
		as.Agent = "conformance"
	}
	once := func() error { return p.attempt(ctx, s, &as) }
	if s.Within == nil {
		return once()
	}
	return until(ctx, "the answer", s.Within.Duration, once)
}

// expandActor of fixtures.yaml.
func (p *play) expandActor(ctx context.Context, as *Actor) error {
	extra := make(map[string][]string, len(as.Extra))
	fields := []*string{&as.FieldManager, &as.ServiceAccount}
	for k, values := range as.Extra {
		extra[k] = slices.Clone(values)
		for i := range extra[k] {
			fields = append(fields, &extra[k][i])
		}
	}
	as.Extra = extra
	for _, f := range fields {
		v, err := p.expandText(ctx, *f)
		if err != nil {
			return err
		}
		*f = text(v)
	}
	return nil
}

func (p *play) attempt(ctx context.Context, s *Step, as *Actor) error {
	r, ref, err := p.build(ctx, s, as)
	if err != nil {
		return err
	}
	r.auditID = rand.Text()
	var before map[string]any
	if s.Expect != nil && s.Expect.compares() && ref != "" && s.Create == nil {
		if before, err = p.get(ctx, ref); err != nil {
			return err
		}
	}
	want := s.Expect
	if want == nil {
		want = &Expect{}
	}
	if err := p.catchUp(ctx, ref, want); err != nil {
		return err
	}
	a, err := p.answer(ctx, r, want)
	if err != nil {
		return fmt.Errorf("cannot reach the API server: %w", err)
	}
	p.remember(a, ref, s)
	if err := want.match(a, before); err != nil {
		if s.Within == nil {
			a.decided = p.decided(ctx, r.auditID)
		}
		return fmt.Errorf("%w\n  answer: %s", err, a)
	}
	return p.audited(ctx, r.auditID, want.Audit)
}

// catchUp waits until the API server's cache has the current object, if audit
// annotations or warnings are checked. The API server first tries a write on the
// state in its cache; if that is stale, it calls the webhooks again with the newest
// state, and the second answer counts. But an audit annotation keeps its first
// value (k8s.io/apiserver/pkg/audit, AddAuditAnnotations), and warnings add up.
func (p *play) catchUp(ctx context.Context, ref string, want *Expect) error {
	if ref == "" || len(want.Audit) == 0 && want.Warnings == nil {
		return nil
	}
	o, err := p.get(ctx, ref)
	if err != nil || o == nil {
		return err
	}
	r, _, err := p.place(request{method: http.MethodGet}, ref, "")
	if err != nil {
		return err
	}
	r.query = url.Values{"resourceVersion": {text(at(o, "metadata.resourceVersion").v)}}
	a, err := p.client.do(ctx, r)
	if err == nil && !a.ok() && a.code != http.StatusNotFound {
		err = errors.New(a.String())
	}
	if err != nil {
		return fmt.Errorf("cannot wait for the API server's cache to have %s: %w", ref, err)
	}
	return nil
}

// answer to a request. If the machine is so slow that it cannot be decided in time, because a parent, permissions or, while
// watches are late, the policies cannot be read, the request is repeated, as controllers do (KR-05-04, KR-13-74), and counted.
// So is one whose object is changed while it is decided about (KR-13-21), as by the wake-up after an approval.
func (p *play) answer(ctx context.Context, r request, want *Expect) (*answer, error) {
	var a *answer
	var failed error
	_ = until(ctx, "a decision", decidedWithin, func() error { // the last answer explains more
		a, failed = p.client.do(ctx, r)
		if failed == nil && want.Code != a.code && a.undecided() {
			p.again.Add(1)
			return errors.New(a.String())
		}
		return nil
	})
	return a, failed
}

// undecided reports whether the implementation could not read in time what it decides by, or the object was another one by then.
func (a *answer) undecided() bool {
	cannot := strings.Contains(text(a.body["message"]), "denied the request: kausality: cannot ")
	switch a.code {
	case http.StatusInternalServerError:
		return cannot || at(a.body, "details.causes[0].reason").v == "ParentUnreadable"
	case http.StatusConflict:
		return cannot
	}
	return false
}

// remember suggested approvals and objects to clean up for later.
func (p *play) remember(a *answer, ref string, s *Step) {
	for _, text := range append(slices.Clone(a.warnings), text(a.body["message"])) {
		if m := suggested.FindStringSubmatch(text); m != nil {
			p.id = m[1]
		}
	}
	namespaced := at(a.body, "metadata.namespace").there
	if (s.Create != nil || s.Apply != nil) && a.ok() && !s.DryRun && ref != "" && !namespaced {
		p.clusterScoped = append(p.clusterScoped, ref)
	}
}

// match an answer with its expectations.
func (e *Expect) match(a *answer, before map[string]any) error {
	if e.refused() == a.ok() {
		return fmt.Errorf("want it to be refused: %t", e.refused())
	}
	var errs []error
	complain := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %w", what, err))
		}
	}
	if e.Code != 0 && a.code != e.Code {
		errs = append(errs, fmt.Errorf("code is %d, want %d", a.code, e.Code))
	}
	if e.Reason != "" {
		complain("reason", Matcher{Equals: e.Reason}.match(at(a.body, "details.causes[0].reason"), value{}))
	}
	if e.StatusReason != "" {
		complain("statusReason", Matcher{Equals: e.StatusReason}.match(at(a.body, "reason"), value{}))
	}
	for _, t := range e.Message {
		complain("message", t.in(text(a.body["message"])))
	}
	if e.Warnings != nil {
		complain("warnings", warned(*e.Warnings, a.warnings))
	}
	if a.ok() {
		complain("object:", e.Looks.match(a.body, before))
	}
	return errors.Join(errs...)
}

func warned(want []Text, got []string) error {
	if len(want) == 0 && len(got) > 0 {
		return fmt.Errorf("are %q, want none", got)
	}
	for _, t := range want {
		if !slices.ContainsFunc(got, func(w string) bool { return t.in(w) == nil }) {
			return fmt.Errorf("are %q, want one with %q", got, string(t))
		}
	}
	return nil
}

// audited compares the request's entry in the API server's audit log.
func (p *play) audited(ctx context.Context, id string, want map[string]Matcher) error {
	if len(want) == 0 {
		return nil
	}
	if p.audit == nil {
		p.skipped.Add(1)
		return nil
	}
	return until(ctx, "the audit log", 20*time.Second, func() error {
		got, err := p.audit.annotations(id)
		if err != nil {
			return err
		}
		if got == nil {
			return errors.New("the audit log does not have the request")
		}
		var errs []error
		for name, m := range want {
			v, ok := got[name]
			if err := m.match(value{v: v, there: ok}, value{}); err != nil {
				errs = append(errs, fmt.Errorf("audit annotation %s %w", name, err))
			}
		}
		return errors.Join(errs...)
	})
}

// decided is what the API server's audit log has about a request whose answer was
// not expected; nil if it has nothing.
func (p *play) decided(ctx context.Context, id string) (got map[string]string) {
	if p.audit == nil {
		return nil
	}
	_ = until(ctx, "the audit log", time.Second, func() (err error) { // without an entry there is nothing to add
		if got, err = p.audit.annotations(id); err == nil && len(got) == 0 {
			err = errors.New("nothing yet")
		}
		return err
	})
	return got
}

// check until it holds.
func (p *play) check(ctx context.Context, c *Check) error {
	return until(ctx, "what is checked", orElse(c.Within, checkWithin), func() error {
		switch {
		case c.Drifts != nil:
			return p.drifts(ctx, c.Drifts)
		case c.Reports != nil:
			return p.reports(c.Reports)
		}
		o, err := p.get(ctx, c.Object)
		if err != nil {
			return err
		}
		exists := c.Exists == nil || *c.Exists
		if exists != (o != nil) {
			return fmt.Errorf("%s exists: %t, want %t", c.Object, o != nil, exists)
		}
		return c.Looks.match(o, nil)
	})
}

// drifts are Drift objects about a child, in any Namespace.
func (p *play) drifts(ctx context.Context, want *Reports) error {
	a, err := p.client.do(ctx, request{method: http.MethodGet, path: "/apis/kausality.io/v1alpha1/drifts", query: url.Values{"limit": {"5000"}}})
	if err != nil {
		return err
	}
	if !a.ok() {
		return fmt.Errorf("cannot list drifts: %s", a)
	}
	items, _ := a.body["items"].([]any)
	return p.count("Drifts", items, want)
}

// reports that the receiver got about a child.
func (p *play) reports(want *Reports) error {
	if p.receiver == nil {
		p.skipped.Add(1)
		return nil
	}
	return p.count("reports", p.receiver.all(), want)
}

// count those about the child of this scenario that have the fields.
func (p *play) count(what string, items []any, want *Reports) error {
	gvk, name, err := p.gvk(want.Child)
	if err != nil {
		return err
	}
	n := 0
	var last error
	for _, item := range items {
		child, _ := at(item, "spec.child").v.(map[string]any)
		if text(child["kind"]) != gvk.Kind || !p.own(child, name) {
			continue
		}
		if err := matchAll(item, nil, want.Fields); err != nil {
			last = fmt.Errorf("%s: %w", text(at(item, "spec.id").v), err)
			continue
		}
		n++
		if p.saved == nil {
			p.saved = map[string]any{}
		}
		p.saved["drift"] = at(item, "spec.id").v
	}
	wanted := 1
	if want.Count != nil {
		wanted = *want.Count
	}
	if n == wanted {
		return nil
	}
	if last != nil {
		return fmt.Errorf("there are %d such %s of %s, want %d; another: %w", n, what, want.Child, wanted, last)
	}
	return fmt.Errorf("there are %d such %s of %s, want %d", n, what, want.Child, wanted)
}

// own reports whether a child is in the scenario's Namespace, or named after it.
func (p *play) own(child map[string]any, name string) bool {
	if name != "" && child["name"] != name {
		return false
	}
	return child["namespace"] == p.namespace || child["namespace"] == nil && strings.Contains(text(child["name"]), p.namespace)
}
