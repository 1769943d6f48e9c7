package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/test/controlplane"
)

// ConformanceGroup has every actor as a member; rbac.yaml grants it everything
// but the verb approve.
const ConformanceGroup = "conformance:users"

// EditorsGroup has the actors with a tenant's rights: rbac.yaml grants it to edit
// objects, and neither their status nor the verb approve.
const EditorsGroup = "conformance:editors"

// ConfigurationLabel on a Namespace names the configuration of the implementation
// that guards it.
const ConfigurationLabel = "conformance.kausality.io/configuration"

// UnguardedLabel is that of objects that are not guarded.
const UnguardedLabel = "conformance.kausality.io/unguarded"

// policyGroup is that of policies and Drifts.
const policyGroup = "kausality.io"

const (
	poll        = 50 * time.Millisecond
	checkWithin = 15 * time.Second
	// decidedWithin is how long a request is repeated about which the implementation cannot decide.
	decidedWithin = 10 * time.Second
)

// Options of a Runner.
type Options struct {
	// Config of a client with all rights, impersonation included.
	Config *rest.Config
	// AuditLog is the API server's audit log, a JSON object per line; if empty,
	// audit annotations are not checked.
	AuditLog string
	// Receiver of DriftReports; if nil, reports are not checked.
	Receiver *Receiver
	// Cleanup removes the Namespace and all cluster-scoped objects after each
	// scenario.
	Cleanup bool
}

// Runner runs scenarios. It is safe for concurrent use.
type Runner struct {
	suite    *Suite
	client   *client
	audit    *auditLog
	receiver *Receiver
	cleanup  bool
	free     chan int
	steps    atomic.Int64
	skipped  atomic.Int64
	again    atomic.Int64
}

// NewRunner returns a Runner.
func NewRunner(s *Suite, o Options) (*Runner, error) {
	c, err := newClient(o.Config, []string{ConformanceGroup, "system:authenticated"})
	if err != nil {
		return nil, err
	}
	r := &Runner{suite: s, client: c, receiver: o.Receiver, cleanup: o.Cleanup, free: free()}
	if o.AuditLog != "" {
		r.audit = newAuditLog(o.AuditLog)
	}
	return r, nil
}

// Steps that ran so far, expectations that were not checked because there is no
// audit log or no receiver of reports, and requests that were repeated.
func (r *Runner) Steps() (played, skipped, again int64) {
	return r.steps.Load(), r.skipped.Load(), r.again.Load()
}

// play is one run of a scenario.
type play struct {
	*Runner
	namespace string
	// configuration that guards it.
	configuration string
	saved         map[string]any
	// id that the last message suggested to approve.
	id string
	// clusterScoped objects to remove in the end.
	clusterScoped []string
	// copy is the number of the copied kinds; 0 until one is used.
	copy int
}

// Run a scenario in its own Namespace. The error lists every expectation that
// failed in the first step with a failure, or the reports about the scenario that are
// not valid; KnownDefect has no effect.
func (r *Runner) Run(ctx context.Context, sc *Scenario) error {
	p := &play{Runner: r, namespace: namespaceFor(sc), configuration: sc.In(), saved: map[string]any{}}
	if err := p.makeNamespace(ctx, sc); err != nil {
		return err
	}
	defer p.clean(context.WithoutCancel(ctx))
	for _, name := range sc.Setup {
		if err := p.play(ctx, "setup "+name, r.suite.Setups[name]); err != nil {
			return err
		}
	}
	if err := p.play(ctx, "scenario", sc.Steps); err != nil || r.receiver == nil {
		return err
	}
	return r.receiver.invalidIn(p.namespace)
}

// Verdict about a scenario.
type Verdict string

const (
	// Passed: every expectation was met.
	Passed Verdict = "passed"
	// Failed: one was not, or a known defect is fixed.
	Failed Verdict = "failed"
	// Defective: it failed, as its known defect predicts.
	Defective Verdict = "known defect"
	// Skipped: its configuration is not installed.
	Skipped Verdict = "skipped"
)

// Judge the result of Run. A scenario with a known defect must fail, so that the
// field cannot outlive the defect.
func (sc *Scenario) Judge(err error) (v Verdict, why string) {
	switch {
	case sc.KnownDefect != "" && err == nil:
		return Failed, fmt.Sprintf("the known defect %q is fixed: remove knownDefect from the scenario", sc.KnownDefect)
	case sc.KnownDefect != "":
		return Defective, fmt.Sprintf("known defect: %s: %v", sc.KnownDefect, err)
	case err != nil:
		return Failed, fmt.Sprintf("%v\nbecause (%s): %s", err, strings.Join(sc.Rules, ", "), sc.Reason)
	}
	return Passed, ""
}

// namespaceFor a scenario: its name and a random suffix.
func namespaceFor(sc *Scenario) string {
	raw := make([]byte, 3)
	_, _ = rand.Read(raw) // never fails
	name := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(sc.File+"-"+sc.Name), "-")
	return strings.Trim(name[:min(len(name), 50)], "-") + "-" + hex.EncodeToString(raw)
}

func (p *play) makeNamespace(ctx context.Context, sc *Scenario) error {
	set := make(map[string]any, len(sc.NamespaceAnnotations))
	for k, v := range sc.NamespaceAnnotations {
		set[key(k)] = v
	}
	a, err := p.client.do(ctx, request{method: http.MethodPost, path: "/api/v1/namespaces", contentType: typeJSON, body: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
			"name": p.namespace, "labels": map[string]any{ConfigurationLabel: sc.In()}, "annotations": set,
		}}})
	if err == nil && !a.ok() {
		err = errors.New(a.String())
	}
	if err != nil {
		return fmt.Errorf("cannot create namespace %s: %w", p.namespace, err)
	}
	return nil
}

// clean up after a scenario: its policies at least, which must not apply to the
// next one. Objects that cannot be removed remain.
func (p *play) clean(ctx context.Context) {
	for _, ref := range p.clusterScoped {
		gvk, _, err := p.gvk(ref)
		if err != nil || !p.cleanup && gvk.Group != policyGroup {
			continue
		}
		if r, _, err := p.place(request{method: http.MethodDelete}, ref, ""); err == nil {
			_, _ = p.client.do(ctx, r)
		}
	}
	if p.cleanup {
		_, _ = p.client.do(ctx, request{method: http.MethodDelete, path: "/api/v1/namespaces/" + p.namespace})
	}
	if p.copy != 0 {
		p.free <- p.copy
	}
}

func (p *play) play(ctx context.Context, what string, steps []map[string]any) error {
	for i, raw := range steps {
		if err := p.step(ctx, raw); err != nil {
			return fmt.Errorf("%s, step %d (%s) in %s: %w", what, i+1, describe(raw), p.namespace, err)
		}
	}
	return nil
}

// describe a step in a few words.
func describe(raw map[string]any) string {
	for _, verb := range []string{"create", "apply", "update", "patch", "annotate", "status", "scale", "delete", "deletecollection", "check", "use"} {
		switch t := raw[verb].(type) {
		case nil:
		case map[string]any:
			of := t["of"]
			for _, k := range []string{"object", "kind"} {
				if of == nil {
					of = t[k]
				}
			}
			return strings.TrimSpace(verb + " " + text(of))
		default:
			return verb + " " + text(t)
		}
	}
	return "nothing"
}

// step expands, decodes and executes a step.
func (p *play) step(ctx context.Context, raw map[string]any) error {
	p.steps.Add(1)
	if name, ok := raw["use"].(string); ok {
		return p.play(ctx, "setup "+name, p.suite.Setups[name])
	}
	save := raw["save"]
	raw = maps.Clone(raw)
	delete(raw, "save")
	tree, err := p.expand(ctx, raw)
	if err != nil {
		return err
	}
	var s Step
	if err := decodeStrict(tree, &s); err != nil {
		return err
	}
	if s.Check != nil {
		err = p.check(ctx, s.Check)
	} else {
		err = p.request(ctx, &s)
	}
	if err != nil {
		return err
	}
	return p.save(ctx, save)
}

func (p *play) save(ctx context.Context, save any) error {
	all, _ := save.(map[string]any)
	for name, expr := range all {
		v, err := p.expand(ctx, expr)
		if err != nil {
			return err
		}
		p.saved[name] = v
	}
	return nil
}

// get the current object; nil if it does not exist.
func (p *play) get(ctx context.Context, ref string) (map[string]any, error) {
	r, _, err := p.place(request{method: http.MethodGet}, ref, "")
	if err != nil {
		return nil, err
	}
	a, err := p.client.do(ctx, r)
	switch {
	case err != nil:
		return nil, err
	case a.code == http.StatusNotFound:
		return nil, nil
	case !a.ok():
		return nil, fmt.Errorf("cannot get %s: %s", ref, a)
	}
	return a.body, nil
}

// until f returns nil; the last error of f after the time, which is that of an idle machine: on a busy one it is longer, so that
// a scenario fails because of what it sees. It works on any cluster, with and without the control plane of these tests.
func until(ctx context.Context, what string, within time.Duration, f func() error) error {
	return controlplane.EventuallyEvery(ctx, poll, what, within, func(context.Context) error { return f() })
}
