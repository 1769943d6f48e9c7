package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8syaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/policystore"
)

// ReadFile reads an audit log as Read does.
func ReadFile(file string) (changes []Change, skipped int, err error) {
	f, err := os.Open(file) //nolint:gosec // The command line names the file.
	if err != nil {
		return nil, 0, err
	}
	defer f.Close() //nolint:errcheck // It is only read.
	return Read(f)
}

// ReadPolicies reads all documents of files, in YAML or JSON. A policy that does
// not compile is an error: tested without it, the others would decide otherwise.
func ReadPolicies(files ...string) (*allowance.Set, error) {
	set, _, err := readPolicies(clock.Now(), files)
	return set, err
}

// readPolicies is ReadPolicies; warnings name what of them can have no effect, as far as no cluster
// is needed to know that (KR-06-26).
func readPolicies(now time.Time, files []string) (set *allowance.Set, warnings []string, err error) {
	var policies []*policystore.Compiled
	for _, file := range files {
		objects, err := readObjects(file)
		if err != nil {
			return nil, nil, err
		}
		for _, o := range objects {
			c, err := compiled(o)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", file, err)
			}
			policies = append(policies, c)
			for _, e := range policystore.Unbound(o, nil, now) {
				warnings = append(warnings, fmt.Sprintf("%s %s: %v", o.GetKind(), o.GetName(), e))
			}
		}
	}
	return policystore.NewSet(slices.Values(policies)), warnings, nil
}

// compiled policy without errors.
func compiled(o *unstructured.Unstructured) (*policystore.Compiled, error) {
	c, err := policystore.Compile(o)
	if err != nil || len(c.Errors) == 0 {
		return c, err
	}
	texts := make([]string, 0, len(c.Errors))
	for _, e := range c.Errors {
		texts = append(texts, e.Error())
	}
	return nil, fmt.Errorf("%s %s does not compile: %s", o.GetKind(), o.GetName(), strings.Join(texts, "; "))
}

// ReadDrifts reads Drifts and DriftReports from a file with documents in YAML or
// JSON.
func ReadDrifts(file string) ([]v1alpha1.DriftSpec, error) {
	objects, err := readObjects(file)
	if err != nil {
		return nil, err
	}
	out := make([]v1alpha1.DriftSpec, 0, len(objects))
	for _, o := range objects {
		d, err := driftSpecOf(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, d)
	}
	return out, nil
}

// driftSpecOf a Drift or a DriftReport, which has the operation in its request.
func driftSpecOf(o *unstructured.Unstructured) (v1alpha1.DriftSpec, error) {
	if o.GetKind() != "Drift" && o.GetKind() != "DriftReport" {
		return v1alpha1.DriftSpec{}, fmt.Errorf("%s %s is no Drift or DriftReport", o.GetKind(), o.GetName())
	}
	raw, err := o.MarshalJSON()
	if err != nil {
		return v1alpha1.DriftSpec{}, fmt.Errorf("cannot read %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	var d struct {
		Spec struct {
			v1alpha1.DriftSpec
			Request *struct {
				Operation string `json:"operation"`
			} `json:"request"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return v1alpha1.DriftSpec{}, fmt.Errorf("cannot read %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	if d.Spec.Operation == "" && d.Spec.Request != nil {
		d.Spec.Operation = d.Spec.Request.Operation
	}
	return d.Spec.DriftSpec, nil
}

// readObjects of a file with documents in YAML or JSON, one after the other; the
// items of a List each. Empty documents are skipped.
func readObjects(file string) ([]*unstructured.Unstructured, error) {
	raw, err := os.ReadFile(file) //nolint:gosec // The command line names the file.
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	decoder := k8syaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		var doc json.RawMessage
		if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: cannot read: %w", file, err)
		}
		if len(bytes.TrimSpace(doc)) == 0 || string(doc) == "null" {
			continue
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(doc); err != nil {
			return nil, fmt.Errorf("%s: cannot read: %w", file, err)
		}
		if !o.IsList() {
			out = append(out, o)
			continue
		}
		list, err := o.ToList()
		if err != nil {
			return nil, fmt.Errorf("%s: cannot read: %w", file, err)
		}
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
	}
}

// Files are what a test reads.
type Files struct {
	// Policies and ApprovalRules, in YAML or JSON.
	Policies []string
	// Events is an audit log.
	Events string
	// At is the time for which windows are printed; zero for when each change was made.
	At time.Time
}

// ParseAt reads Files.At, which is zero for no text.
func ParseAt(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("--at: %q is no time as in 2026-01-02T15:04:05Z", text)
	}
	return at, nil
}

// Test the changes of the audit log against the policies, and print the result. It is an error if a change would have
// been refused. Policies are compiled before the log is read, which may be large.
func (f Files) Test(ctx context.Context, out io.Writer) error {
	set, warnings, err := readPolicies(clock.Now(), f.Policies)
	if err != nil {
		return err
	}
	changes, skipped, err := ReadFile(f.Events)
	if err != nil {
		return err
	}
	r, err := Test(ctx, changes, set)
	if err != nil {
		return err
	}
	r.Warnings = append(warnings, r.Warnings...)
	r.Print(out, f.Events, skipped, f.At)
	switch {
	case len(r.Refusals) > 0:
		return fmt.Errorf("%d recorded changes would have been refused", len(r.Refusals))
	case len(r.Closed) > 0:
		return fmt.Errorf("%d recorded changes would not have reached their external resources", len(r.Closed))
	}
	return nil
}

// Print the result: a line for each warning and each refusal, with the line of the log, who may approve it and
// when by the ApprovalRules (KR-14-18), then the counts. skipped is what Read returned, at is Files.At.
func (r *Result) Print(out io.Writer, log string, skipped int, at time.Time) {
	for _, w := range r.Warnings {
		fmt.Fprintf(out, "warning: %s\n", w)
	}
	for _, f := range r.Refusals {
		fmt.Fprintf(out, "%s:%d: %s\n", log, f.Line, f.Message)
		if r.Rules {
			f.printNeeds(out, at)
		}
	}
	for _, f := range r.Closed {
		fmt.Fprintf(out, "%s:%d: %s\n", log, f.Line, f.Message)
	}
	if len(r.Closed) > 0 {
		fmt.Fprintf(out, "%d changes allowed whose gates would have stayed closed\n", len(r.Closed))
	}
	fmt.Fprintf(out, "%d changes decided, %d expected or allowed by policies, %d refused; %d writes without an object in the log\n",
		r.Decided, r.Covered, len(r.Refusals), skipped)
}

// printNeeds prints a line for each ApprovalRule that matches the change.
func (f *Refusal) printNeeds(out io.Writer, at time.Time) {
	if at.IsZero() {
		at = f.Time
	}
	switch {
	case len(f.Needs) > 1:
		fmt.Fprintf(out, "  needs approval by all of %d ApprovalRules:\n", len(f.Needs))
	case len(f.Needs) == 0 && f.Approvable:
		fmt.Fprintln(out, "  needs 1 approval of any user: no ApprovalRule matches it")
	case len(f.Needs) == 0:
		fmt.Fprintln(out, "  no approval lets it pass")
	}
	for i := range f.Needs {
		fmt.Fprintf(out, "  needs approval by ApprovalRule %s: %s\n", f.Needs[i].Rule, f.Needs[i].Who(at))
	}
}

// WritePolicies as YAML documents, without their status.
func WritePolicies(out io.Writer, policies []v1alpha1.AllowancePolicy) error {
	for i := range policies {
		p := &policies[i]
		raw, err := yaml.Marshal(struct {
			APIVersion string                       `json:"apiVersion"`
			Kind       string                       `json:"kind"`
			Metadata   map[string]string            `json:"metadata"`
			Spec       v1alpha1.AllowancePolicySpec `json:"spec"`
		}{p.APIVersion, p.Kind, map[string]string{"name": p.Name}, p.Spec})
		if err != nil {
			return fmt.Errorf("cannot encode AllowancePolicy %s: %w", p.Name, err)
		}
		if _, err := fmt.Fprintf(out, "---\n%s", raw); err != nil {
			return err
		}
	}
	return nil
}
