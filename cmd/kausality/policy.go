package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8syaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/policystore"
	"github.com/kausality-io/function-kausality/replay"
)

func policyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "policy", Short: "Learn policies from what was recorded, and test them on it.", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return usageError{fmt.Errorf("say what to do; see %s --help", cmd.CommandPath())}
	}}
	for _, c := range []*cobra.Command{policyTestCommand(), policyDeriveCommand()} {
		c.SilenceErrors, c.SilenceUsage = true, true
		cmd.AddCommand(c)
	}
	return cmd
}

func policyTestCommand() *cobra.Command {
	var events string
	cmd := &cobra.Command{
		Use:   "test FILE... --events=AUDITLOG",
		Short: "Replay recorded changes against policies and print what would have been refused.",
		Long: `Replays the changes of an API server's audit log (JSON lines, level RequestResponse)
against the policies in FILE..., in mode enforce, and prints each change that would have
been refused, and why. Exits with 1 if any would, or if a policy does not compile.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || events == "" {
				return usageError{fmt.Errorf("name the files with policies, and the audit log with --events; see %s --help", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return testPolicies(cmd, args, events) },
	}
	cmd.Flags().StringVar(&events, "events", "", "File with the audit log.")
	return cmd
}

func testPolicies(cmd *cobra.Command, files []string, events string) error {
	set, err := readPolicies(files)
	if err != nil {
		return err
	}
	changes, skipped, err := readChanges(events)
	if err != nil {
		return err
	}
	r, err := replay.Test(cmd.Context(), changes, set)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	for _, w := range r.Warnings {
		fmt.Fprintf(out, "warning: %s\n", w)
	}
	for _, f := range r.Refusals {
		fmt.Fprintf(out, "%s:%d: %s\n", events, f.Line, f.Message)
	}
	fmt.Fprintf(out, "%d changes decided, %d expected or allowed by policies, %d refused; %d writes without an object in the log\n", r.Asked, r.Covered, len(r.Refusals), skipped)
	if len(r.Refusals) > 0 {
		return fmt.Errorf("%d recorded changes would have been refused", len(r.Refusals))
	}
	return nil
}

func readChanges(file string) ([]replay.Change, int, error) {
	f, err := os.Open(file) //nolint:gosec // It is the file that was asked for.
	if err != nil {
		return nil, 0, err
	}
	defer f.Close() //nolint:errcheck // It is only read.
	return replay.Read(f)
}

// readPolicies of all documents in files. A policy that does not compile is an
// error.
func readPolicies(files []string) (*allowance.Set, error) {
	var policies []*allowance.Compiled
	var upgrades []*allowance.Upgrade
	var exceptions []*allowance.Exception
	for _, file := range files {
		docs, err := documents(file)
		if err != nil {
			return nil, err
		}
		for _, o := range docs {
			c, err := policystore.Compile(o)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if len(c.Errors) > 0 {
				texts := make([]string, 0, len(c.Errors))
				for _, e := range c.Errors {
					texts = append(texts, e.Error())
				}
				return nil, fmt.Errorf("%s: %s %s does not compile: %s", file, o.GetKind(), o.GetName(), strings.Join(texts, "; "))
			}
			switch {
			case c.Allowance != nil:
				policies = append(policies, c.Allowance)
			case c.Upgrade != nil:
				upgrades = append(upgrades, c.Upgrade)
			case c.Exception != nil:
				exceptions = append(exceptions, c.Exception)
			}
		}
	}
	return allowance.NewSet(policies, upgrades, exceptions), nil
}

// documents of a file with YAML or JSON, one after the other; those of a List
// each.
func documents(file string) ([]*unstructured.Unstructured, error) {
	raw, err := os.ReadFile(file) //nolint:gosec // It is the file that was asked for.
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

func policyDeriveCommand() *cobra.Command {
	var events, drifts string
	cmd := &cobra.Command{
		Use:   "derive --events=AUDITLOG | --drifts=FILE",
		Short: "Print AllowancePolicies that allow what was recorded in log mode.",
		Long: `Prints AllowancePolicies that allow what was recorded in log mode: from an API server's
audit log (JSON lines, level RequestResponse), by the traces in its objects, or from
Drifts ("kubectl get drifts -A -o json") and DriftReports (as "kausality notify log" prints
them), which do not tell what caused a change: their rules are to be narrowed by hand.
Read what it prints before you apply it.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := noArgs(cmd, args); err != nil {
				return err
			}
			if events == "" && drifts == "" {
				return usageError{fmt.Errorf("name what was recorded with --events or --drifts; see %s --help", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return derivePolicies(cmd.OutOrStdout(), events, drifts) },
	}
	cmd.Flags().StringVar(&events, "events", "", "File with the audit log.")
	cmd.Flags().StringVar(&drifts, "drifts", "", "File with Drifts or DriftReports, as YAML or JSON.")
	return cmd
}

func derivePolicies(out io.Writer, events, drifts string) error {
	l := replay.NewLearner()
	if events != "" {
		changes, _, err := readChanges(events)
		if err != nil {
			return err
		}
		l.Changes(changes)
	}
	if drifts != "" {
		docs, err := documents(drifts)
		if err != nil {
			return err
		}
		for _, o := range docs {
			d, err := driftOf(o)
			if err != nil {
				return fmt.Errorf("%s: %w", drifts, err)
			}
			l.Drift(d)
		}
	}
	policies := l.Policies()
	if len(policies) == 0 {
		return errors.New("nothing was recorded that a policy could be derived from: no change of a child whose cause is recorded as well")
	}
	for i := range policies {
		raw, err := yaml.Marshal(printed(&policies[i]))
		if err != nil {
			return fmt.Errorf("cannot write a policy: %w", err)
		}
		if _, err := fmt.Fprintf(out, "---\n%s", raw); err != nil {
			return err
		}
	}
	return nil
}

// printed is a policy without the empty status that Go's zero values leave.
func printed(p *v1alpha1.AllowancePolicy) any {
	return struct {
		APIVersion string                       `json:"apiVersion"`
		Kind       string                       `json:"kind"`
		Metadata   map[string]string            `json:"metadata"`
		Spec       v1alpha1.AllowancePolicySpec `json:"spec"`
	}{p.APIVersion, p.Kind, map[string]string{"name": p.Name}, p.Spec}
}

// driftOf a Drift or a DriftReport.
func driftOf(o *unstructured.Unstructured) (v1alpha1.DriftSpec, error) {
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
