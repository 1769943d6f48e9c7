package scope

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

// ConfigurationName is that of the MutatingWebhookConfiguration that defines which
// resources are guarded.
const ConfigurationName = v1alpha1.WebhookConfigurationName

// Configurations are the resource of the webhook configuration.
var Configurations = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}

// Scope is the set of guarded resources, as the webhook configuration has it:
// it is the one that the API server reads, and is stored nowhere else.
type Scope struct {
	informer  cache.SharedIndexInformer
	taken     cache.ResourceEventHandlerRegistration
	onChange  []func()
	onRemoval []func()
	// fixed: the set is that of a configuration which is stored nowhere.
	fixed bool

	// taking is held while now is replaced, which is not modified.
	taking sync.Mutex
	now    atomic.Pointer[snapshot]
}

// snapshot is what was taken of configurations so far.
type snapshot struct {
	configuration
	// gone: there is no configuration any more, or nothing in it; kept and statuses are what the
	// last one had, which followed policies or did not.
	gone         bool
	keptPolicies bool
}

// stateOf returns the state of a Scope; the zero snapshot before a configuration was taken.
func stateOf(s *Scope) *snapshot {
	if now := s.now.Load(); now != nil {
		return now
	}
	return &snapshot{}
}

// rule of a webhook configuration: API groups and resources, * for all.
type rule struct{ groups, resources []string }

// configuration of the webhook: what is guarded by rules, and what is guarded or
// kept until it is restored.
type configuration struct {
	informer.Meta
	rules    []rule
	kept     []rule
	statuses []rule
	entries  []Entry
	policies bool
	removing bool
}

// configurationOf the webhook: the rules about objects, those about objects or their
// status, and those about the status alone. An entry that cannot be read guards nothing.
func configurationOf(o *unstructured.Unstructured) *configuration {
	entries, _ := entriesOf(o) // the API server validated it
	return &configuration{Meta: informer.MetaOf(o), entries: entries, rules: rulesOf(o, mains), kept: rulesOf(o, withStatus), statuses: rulesOf(o, statuses),
		policies: o.GetLabels()[labelManaged] == v1alpha1.ManagerController, removing: Removing(o)}
}

// New returns a Scope that covers nothing until Run.
func New(client dynamic.Interface) (*Scope, error) {
	s := &Scope{}
	s.informer = informer.New(client, Configurations, ConfigurationName, func(o *unstructured.Unstructured) any { return configurationOf(o) })
	var err error
	s.taken, err = s.informer.AddEventHandler(informer.Handler("scope", cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { s.set(o) },
		UpdateFunc: func(_, o any) { s.set(o) },
		DeleteFunc: func(any) { s.Lose() },
	}))
	if err != nil {
		return nil, fmt.Errorf("cannot watch the webhook configuration: %w", err)
	}
	return s, nil
}

// Set it to a configuration that was read.
func (s *Scope) Set(o *unstructured.Unstructured) { s.set(configurationOf(o)) }

// Fix the set to that of a configuration, which is stored nowhere. Call it before Run.
func (s *Scope) Fix(o *unstructured.Unstructured) {
	s.fixed = true
	s.Set(o)
}

// Run the watch until the context ends.
func (s *Scope) Run(ctx context.Context) {
	if s.fixed {
		<-ctx.Done()
		return
	}
	s.informer.RunWithContext(ctx)
}

// HasSynced reports whether the configuration was read and taken.
func (s *Scope) HasSynced() bool { return s.fixed || s.taken.HasSynced() }

// OnChange calls f after the set changed; a handler of its own would
// run at the same time as the one that takes the change. Call it before Run.
func (s *Scope) OnChange(f func()) { s.onChange = append(s.onChange, f) }

// Set the configuration that was read, and call the listeners without the lock.
func (s *Scope) set(o any) {
	c, ok := o.(*configuration)
	if !ok {
		return
	}
	changed, turned := s.take(c)
	if changed {
		informer.Call(s.onChange)
	}
	if turned {
		informer.Call(s.onRemoval)
	}
}

// take a configuration, and report whether it covers other resources than before,
// and whether the removal of Kausality began or was cancelled.
func (s *Scope) take(c *configuration) (changed, turned bool) {
	s.taking.Lock()
	defer s.taking.Unlock()
	was, next := stateOf(s), &snapshot{configuration: *c, gone: len(c.kept) == 0, keptPolicies: c.policies}
	same := was.gone == next.gone && was.policies == c.policies && reflect.DeepEqual(was.rules, c.rules) &&
		reflect.DeepEqual(was.kept, c.kept) && reflect.DeepEqual(was.statuses, c.statuses) && reflect.DeepEqual(was.entries, c.entries)
	if next.gone { // an emptied one does not change what is masked
		next.kept, next.statuses, next.keptPolicies = was.kept, was.statuses, was.keptPolicies
	}
	s.now.Store(next)
	return !same, was.removing != c.removing
}

// Lose the configuration, but keep what it declared: Kausality must not forget what
// it masked if the webhook is uninstalled or partly re-installed.
func (s *Scope) Lose() {
	s.taking.Lock()
	next := *stateOf(s)
	next.gone = true
	s.now.Store(&next)
	s.taking.Unlock()
	informer.Call(s.onChange)
}

// Gone reports whether the configuration, which followed policies, is away: as it
// is when no policy is left, and when it was deleted.
func (s *Scope) Gone() bool {
	now := stateOf(s)
	return now.gone && now.keptPolicies
}

// Known reports whether a configuration with rules exists or existed: the API
// server may also call the webhook by another configuration.
func (s *Scope) Known() bool { return len(stateOf(s).kept) > 0 }

// Entered returns the entries of the configuration. They are not modified.
func (s *Scope) Entered() []Entry { return stateOf(s).entries }

// Followed reports whether the last configuration that had rules followed
// policies.
func (s *Scope) Followed() bool { return stateOf(s).keptPolicies }

// labelManaged of the configuration is the policy controller's name where the
// rules follow from Kausality policies.
const labelManaged = "app.kubernetes.io/managed-by"

// FollowsPolicies reports whether the set is what Kausality policies require:
// what none of them covers is then on its way out of it.
func (s *Scope) FollowsPolicies() bool { return stateOf(s).policies }

// Covers reports whether a resource is guarded.
func (s *Scope) Covers(r schema.GroupResource) bool { return Covers(stateOf(s).rules, r) }

// Watches reports whether a resource is guarded, or was and something of it is
// masked still: the policy controller leaves us access to it, and the configuration
// has its status reviewed.
func (s *Scope) Watches(r schema.GroupResource) bool { return Covers(stateOf(s).kept, r) }

// ReviewsStatus reports whether the API server sends the status writes of a
// resource for review.
func (s *Scope) ReviewsStatus(r schema.GroupResource) bool { return Covers(stateOf(s).statuses, r) }

// WatchesIn reports whether any resource of a group is what Watches is about.
func (s *Scope) WatchesIn(group string) bool {
	return slices.ContainsFunc(stateOf(s).kept, func(r rule) bool { return has(r.groups, group) })
}

// Covers reports whether any rule is about a resource.
func Covers(rules []rule, r schema.GroupResource) bool {
	return slices.ContainsFunc(rules, func(rule rule) bool { return has(rule.groups, r.Group) && has(rule.resources, r.Resource) })
}

// has reports whether a list of a rule names something, by itself or by a wildcard.
func has(list []string, want string) bool {
	return slices.ContainsFunc(list, func(e string) bool { return e == want || e == "*" || e == "*/*" })
}

// rulesOf a configuration about the resources that names makes of those of a rule.
func rulesOf(o *unstructured.Unstructured, names func([]string) []string) []rule {
	hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks") // the API server validated it
	var out []rule
	for _, h := range hooks {
		m, _ := h.(map[string]any)
		if m["name"] == v1alpha1.WebhookMetadata {
			continue
		}
		rules, _ := m["rules"].([]any)
		for _, e := range rules {
			r, _ := e.(map[string]any)
			if next := (rule{groups: texts(r["apiGroups"]), resources: names(texts(r["resources"]))}); len(next.resources) > 0 {
				out = append(out, next)
			}
		}
	}
	return out
}

// texts returns the strings in a list of JSON, without its other elements.
func texts(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		if t, ok := e.(string); ok {
			out = append(out, t)
		}
	}
	return out
}

// mains drops subresources.
func mains(resources []string) []string {
	var out []string
	for _, r := range resources {
		if !strings.Contains(r, "/") || r == "*/*" {
			out = append(out, r)
		}
	}
	return out
}

// withStatus returns the resources, also those of which only the status is reviewed.
func withStatus(resources []string) []string { return append(mains(resources), statuses(resources)...) }

// statuses returns the resources with a status that is reviewed.
func statuses(resources []string) []string {
	var out []string
	for _, r := range resources {
		if of, status := strings.CutSuffix(r, "/status"); status || r == "*/*" {
			out = append(out, of)
		}
	}
	return out
}
