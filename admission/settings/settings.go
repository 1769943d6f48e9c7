package settings

import (
	"cmp"
	"slices"
	"time"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Target is an object whose settings are looked up.
type Target struct {
	// Group and Resource, the plural.
	Group, Resource string
	// Namespace is "" for a cluster-scoped object.
	Namespace string
	// NamespaceLabels and Labels may be nil.
	NamespaceLabels, Labels map[string]string
}

// Settings that hold for an object. The zero value leaves
// everything to the installation.
type Settings struct {
	// Policy by name; "" where none covers the object.
	Policy string
	// Mode of the policy; "" leaves it to the installation.
	Mode v1alpha1.Mode
	// RequireApproval: changes by other actors are treated as drift.
	RequireApproval bool
	// MixedCauses of the policy; "" leaves it to the kind of write.
	MixedCauses v1alpha1.MixedCauses
	// Suspended: the webhook is not called for the object (KR-12-13).
	Suspended bool
	// TraceOnly: changes are traced, and nothing is decided about them (KR-07-13).
	TraceOnly bool
	// DerivePolicies: AllowancePolicies are derived from the object, which is a graph of kro (KR-18-11).
	DerivePolicies bool
	// CloseTo are the verbs of a closed gate beside Observe; valid where
	// HasCloseTo, else it is left to the installation.
	CloseTo    []v1alpha1.Verb
	HasCloseTo bool
	// Deadline of an opening; 0 leaves it to the installation.
	Deadline time.Duration
	// Provenance that is recorded in external systems; valid where HasProvenance, else it is left to the installation.
	Provenance    []v1alpha1.Provenance
	HasProvenance bool
	// SecretFields that the policy names.
	SecretFields change.SecretFields
	// Freezes of all policies that cover the object, also of those that are less specific, by the policies' names.
	Freezes []PolicyFreeze

	// ignored paths of the external difference; nil for none.
	ignored *change.Index
}

// Relevant returns those of the external differences that the policy does not ignore, with the fields
// redacted that it names as secret. The argument is not modified.
func (s Settings) Relevant(differences []change.Change) []change.Change {
	differences = s.SecretFields.Redact(differences)
	if s.ignored == nil {
		return differences
	}
	return slices.DeleteFunc(slices.Clone(differences), func(d change.Change) bool { return s.ignored.Covers(change.SplitPath(d.Path)) != 0 })
}

// Set of policies, compiled. The zero value holds none. It is immutable, and so
// safe for concurrent use.
type Set struct {
	scopes   []Scope
	settings map[string]Settings
	// frozen are the scopes of policies with a freeze, and freezes those, by the policies' names.
	frozen  []Scope
	freezes map[string]PolicyFreeze
	// initialized conditions by group and kind.
	initialized map[[2]string][]string
}

// Compile compiles policies. What is invalid in them is left out, and in errs by the policy's name.
func Compile(policies []*v1alpha1.Kausality) (set Set, errs map[string]error) {
	set = Set{settings: map[string]Settings{}, freezes: map[string]PolicyFreeze{}, initialized: map[[2]string][]string{}}
	errs = map[string]error{}
	policies = slices.Clone(policies)
	slices.SortFunc(policies, func(a, b *v1alpha1.Kausality) int { return cmp.Compare(a.Name, b.Name) })
	for _, k := range policies {
		scopes, err := scopes(k)
		if err != nil {
			errs[k.Name] = err
			continue
		}
		set.scopes = append(set.scopes, scopes...)
		set.settings[k.Name] = settingsOf(k)
		if k.Spec.Freeze != nil && !k.Spec.TraceOnly {
			set.frozen, set.freezes[k.Name] = append(set.frozen, scopes...), PolicyFreeze{Policy: k.Name, Freeze: *k.Spec.Freeze}
		}
		for _, r := range k.Spec.Lifecycle {
			if at := [2]string{r.APIGroup, r.Kind}; set.initialized[at] == nil {
				set.initialized[at] = r.Initialized
			}
		}
	}
	slices.SortStableFunc(set.scopes, bySpecificity)
	return set, errs
}

// settingsOf returns the settings of a policy without its mode, which differs by Scope.
func settingsOf(k *v1alpha1.Kausality) Settings {
	s := Settings{Policy: k.Name, Suspended: k.Spec.Suspend, TraceOnly: k.Spec.TraceOnly, MixedCauses: k.Spec.MixedCauses,
		DerivePolicies: k.Spec.DerivePolicies, RequireApproval: k.Spec.OtherActors == v1alpha1.OtherActorsRequireApproval,
		SecretFields: change.SecretFieldsOf(k.Spec.SecretPaths...)}
	if e := k.Spec.External; e != nil {
		s.Provenance, s.HasProvenance = e.Provenance, true
	}
	return s.WithGate(k.Spec.Gate)
}

// Records reports whether the cause of a change is recorded in a way, byDefault where the policy leaves it to the installation. Nothing is
// written to what is only traced.
func (s Settings) Records(p v1alpha1.Provenance, byDefault []v1alpha1.Provenance) bool {
	if s.HasProvenance {
		byDefault = s.Provenance
	}
	return !s.TraceOnly && slices.Contains(byDefault, p)
}

// WithGate sets what is configured of gates; nil for nothing.
func (s Settings) WithGate(g *v1alpha1.GateSettings) Settings {
	if g == nil {
		return s
	}
	if len(g.Closed) > 0 {
		s.HasCloseTo = true
		for _, v := range g.Closed {
			if v != v1alpha1.VerbObserve {
				s.CloseTo = append(s.CloseTo, v)
			}
		}
	}
	if g.Deadline != nil {
		s.Deadline = g.Deadline.Duration
	}
	s.ignored = ignored(g.IgnorePaths)
	return s
}

// ignored returns the paths that a policy ignores, each with what is below it; nil for none. A path
// is one of change.ParsePattern. Older versions compared it as a text with the path of a difference,
// [*] aside: quotes and brackets within brackets, which ParsePattern refuses, were part of a key, and
// are still.
func ignored(paths []string) *change.Index {
	if len(paths) == 0 {
		return nil
	}
	out := &change.Index{}
	for _, text := range paths {
		if p, err := change.ParsePattern(text); err == nil {
			out.Add(p, 1)
		}
		if steps := change.SplitPath(text); change.Text(steps) == text {
			out.Add(change.PatternOf(steps), 1)
		}
	}
	return out
}

// Scopes returns all scopes, the most specific first. The caller must not modify them.
func (s Set) Scopes() []Scope { return s.scopes }

// For returns the settings for an object: those of the most specific policy that covers it, with the
// freezes of all policies that cover it.
func (s Set) For(t Target) Settings {
	for i := range s.scopes {
		if s.scopes[i].matches(t) {
			out := s.settings[s.scopes[i].Policy]
			out.Mode, out.Freezes = s.scopes[i].Mode, s.freezesOf(t)
			return out
		}
	}
	return Settings{}
}

// freezesOf returns the freezes of an object: each policy freezes what it covers, whichever policy is
// the most specific (KR-14-34).
func (s Set) freezesOf(t Target) (out []PolicyFreeze) {
	for i := range s.frozen { // by the policies' names
		scope := &s.frozen[i]
		if (len(out) == 0 || out[len(out)-1].Policy != scope.Policy) && scope.matches(t) {
			out = append(out, s.freezes[scope.Policy])
		}
	}
	return out
}

// Frozen returns the policies with a freeze, by name. The caller must not modify them.
func (s Set) Frozen() map[string]PolicyFreeze { return s.freezes }

// Initialized returns the condition types by which objects of a kind count as initialized. One of
// them is enough; nil leaves it to Initialized and Ready.
func (s Set) Initialized(group, kind string) []string { return s.initialized[[2]string{group, kind}] }
