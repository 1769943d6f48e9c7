package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// DefaultConfiguration applies to scenarios that name none.
const DefaultConfiguration = "enforce"

// Suite is all scenarios with their shared vocabulary.
type Suite struct {
	Vocabulary
	// Scenarios in the order of their file names.
	Scenarios []Scenario
}

// Vocabulary that scenarios share: fixtures.yaml.
type Vocabulary struct {
	// Kinds by the short names that scenarios use.
	Kinds map[string]Kind `json:"kinds"`
	// Actors by name.
	Actors map[string]Actor `json:"actors"`
	// Setups are named lists of steps.
	Setups map[string][]map[string]any `json:"setups"`
}

// Kind of a short name.
type Kind struct {
	APIVersion string `json:"apiVersion"`
	// Kind is the short name itself if empty.
	Kind string `json:"kind,omitempty"`
	// Copied: each scenario has its own copy of the kind.
	Copied bool `json:"copied,omitempty"`
}

// Actor makes requests.
type Actor struct {
	// User name, or ServiceAccount as NAMESPACE/NAME; exactly one of them.
	User           string `json:"user,omitempty"`
	ServiceAccount string `json:"serviceAccount,omitempty"`
	UID            string `json:"uid,omitempty"`
	// Groups in addition to those of every actor.
	Groups []string `json:"groups,omitempty"`
	// Tenant is in EditorsGroup instead of ConformanceGroup.
	Tenant bool                `json:"tenant,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
	// FieldManager of the requests; empty sends none, and the API server derives
	// one from Agent.
	FieldManager string `json:"fieldManager,omitempty"`
	// Agent is the product in the User-Agent; "conformance" if empty.
	Agent string `json:"agent,omitempty"`
}

// Scenario is a sequence of requests and checks in one Namespace.
type Scenario struct {
	// File that contains it, without its suffix.
	File string `json:"-"`
	// Name is unique in its file and has no spaces.
	Name string `json:"name"`
	// Rules of docs/specification.md that it is about, as in KR-05-13.
	Rules []string `json:"rules"`
	// Reason for the expected result.
	Reason string `json:"reason"`
	// Configuration of the implementation; DefaultConfiguration if empty.
	Configuration string `json:"configuration,omitempty"`
	// NamespaceAnnotations of the Namespace it runs in.
	NamespaceAnnotations map[string]string `json:"namespaceAnnotations,omitempty"`
	// Setup names lists of steps that run first.
	Setup []string `json:"setup,omitempty"`
	// Steps that run then, each a Step.
	Steps []map[string]any `json:"steps"`
	// Each row of a table, by name, is a separate scenario: its columns are
	// variables of the steps, and reason replaces Reason.
	Each map[string]map[string]any `json:"each,omitempty"`
	// Later: it needs the later webhook.
	Later bool `json:"later,omitempty"`
	// Differs is what the admission plugin does otherwise, on purpose, as docs/library.md has it. Empty for nothing.
	Differs string `json:"differs,omitempty"`
	// KnownDefect describes what the implementation does wrong: the scenario must
	// fail until that is fixed. Empty for none.
	KnownDefect string `json:"knownDefect,omitempty"`
}

// file of scenarios.
type file struct {
	// Topic is for readers.
	Topic     string     `json:"topic"`
	Scenarios []Scenario `json:"scenarios"`
}

// ruleID is the form of a rule's id.
var ruleID = regexp.MustCompile(`^KR-\d\d-\d\d$`)

// Load the suite of a directory: fixtures.yaml, and scenarios/*.yaml.
func Load(dir fs.FS) (*Suite, error) {
	s := &Suite{}
	if err := decodeFile(dir, "fixtures.yaml", &s.Vocabulary); err != nil {
		return nil, err
	}
	names, err := fs.Glob(dir, "scenarios/*.yaml")
	if err != nil {
		return nil, err
	}
	var errs []error
	for name, steps := range s.Setups {
		errs = append(errs, s.steps("setup "+name, steps))
	}
	for _, name := range names {
		var f file
		if err := decodeFile(dir, name, &f); err != nil {
			errs = append(errs, err)
			continue
		}
		for _, sc := range f.Scenarios {
			sc.File = strings.TrimSuffix(path.Base(name), ".yaml")
			rows, err := sc.rows()
			errs = append(errs, err)
			s.Scenarios = append(s.Scenarios, rows...)
		}
	}
	return s, errors.Join(append(errs, s.check())...)
}

func decodeFile(dir fs.FS, name string, into any) error {
	raw, err := fs.ReadFile(dir, name)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", name, err)
	}
	if err := yaml.UnmarshalStrict(raw, into); err != nil {
		return fmt.Errorf("cannot read %s: %w", name, err)
	}
	return nil
}

// decodeStrict decodes a tree that was read from YAML into a type.
func decodeStrict(tree, into any) error {
	raw, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

func (s *Suite) check() error {
	var errs []error
	seen := map[string]bool{}
	for _, sc := range s.Scenarios {
		id := sc.ID()
		if seen[id] {
			errs = append(errs, fmt.Errorf("scenario %s exists twice", id))
		}
		seen[id] = true
		errs = append(errs, s.Validate(&sc))
	}
	return errors.Join(errs...)
}

// ID of a scenario: FILE/NAME.
func (sc *Scenario) ID() string { return sc.File + "/" + sc.Name }

// In is the configuration of a scenario.
func (sc *Scenario) In() string {
	if sc.Configuration == "" {
		return DefaultConfiguration
	}
	return sc.Configuration
}

// Validate a scenario as far as possible without running it.
func (s *Suite) Validate(sc *Scenario) error {
	id := sc.ID()
	var errs []error
	for what, missing := range map[string]bool{"name": sc.Name == "", "rules": len(sc.Rules) == 0, "reason": sc.Reason == ""} {
		if missing {
			errs = append(errs, fmt.Errorf("scenario %s has no %s", id, what))
		}
	}
	for _, rule := range sc.Rules {
		if !ruleID.MatchString(rule) {
			errs = append(errs, fmt.Errorf("scenario %s: %q is not the id of a rule, as in KR-05-13", id, rule))
		}
	}
	if strings.ContainsAny(sc.Name, " /") {
		errs = append(errs, fmt.Errorf("scenario %s: the name must be one word", id))
	}
	for _, name := range sc.Setup {
		if _, ok := s.Setups[name]; !ok {
			errs = append(errs, fmt.Errorf("scenario %s: setup %q is not defined", id, name))
		}
	}
	errs = append(errs, s.steps("scenario "+id, sc.Steps))
	if !slices.ContainsFunc(sc.Steps, checks) {
		errs = append(errs, fmt.Errorf("scenario %s checks nothing: give a step expect or check", id))
	}
	return errors.Join(errs...)
}

func checks(step map[string]any) bool { return step["expect"] != nil || step["check"] != nil }

func (s *Suite) steps(of string, steps []map[string]any) error {
	var errs []error
	for i, raw := range steps {
		if err := s.step(raw); err != nil {
			errs = append(errs, fmt.Errorf("%s, step %d: %w", of, i+1, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Suite) step(raw map[string]any) error {
	var step Step
	if err := decodeStrict(raw, &step); err != nil {
		return err
	}
	if err := step.check(); err != nil {
		return err
	}
	if step.Use != "" {
		if _, ok := s.Setups[step.Use]; !ok {
			return fmt.Errorf("setup %q is not defined", step.Use)
		}
		return nil
	}
	if step.Check != nil || step.As == nil {
		return nil
	}
	_, err := s.actor(step.As)
	return err
}

// actor of a step: the named one with the fields that the step replaces.
func (s *Suite) actor(as *As) (Actor, error) {
	a := as.Actor
	if as.Name != "" {
		base, ok := s.Actors[as.Name]
		if !ok {
			return a, fmt.Errorf("actor %q is not defined", as.Name)
		}
		a = base
		if as.FieldManager != "" {
			a.FieldManager = as.FieldManager
		}
		if as.Groups != nil {
			a.Groups = as.Groups
		}
	}
	if (a.User == "") == (a.ServiceAccount == "") {
		return a, errors.New("an actor needs a user or a serviceAccount, and not both")
	}
	return a, nil
}

// Duration as in 10s.
type Duration = metav1.Duration

// orElse returns a duration, or a default if it is nil.
func orElse(d *Duration, byDefault time.Duration) time.Duration {
	if d == nil {
		return byDefault
	}
	return d.Duration
}
