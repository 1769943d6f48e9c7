package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8syaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/policystore"
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
	var policies []*policystore.Compiled
	for _, file := range files {
		objects, err := readObjects(file)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			c, err := compiled(o)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			policies = append(policies, c)
		}
	}
	return policystore.NewSet(slices.Values(policies)), nil
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

// Print the result: a line for each warning and each refusal, with the line of
// the log, then the counts. skipped is what Read returned.
func (r *Result) Print(out io.Writer, log string, skipped int) {
	for _, w := range r.Warnings {
		fmt.Fprintf(out, "warning: %s\n", w)
	}
	for _, f := range r.Refusals {
		fmt.Fprintf(out, "%s:%d: %s\n", log, f.Line, f.Message)
	}
	fmt.Fprintf(out, "%d changes decided, %d expected or allowed by policies, %d refused; %d writes without an object in the log\n",
		r.Decided, r.Covered, len(r.Refusals), skipped)
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
