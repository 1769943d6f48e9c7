package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	input "github.com/kausality-io/function-kausality/fn/input/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

var (
	policyResource      = v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceKausalities)
	compositionResource = schema.GroupVersionResource{Group: "apiextensions.crossplane.io", Version: "v1", Resource: "compositions"}
)

// emergencyCommand lists what leaving mode enforce releases, and the commands for it (KR-12-15).
type emergencyCommand struct {
	*session
	arguments
	format format
}

// Emergency is what is known before anything is switched off.
type Emergency struct {
	// Reverted are the external differences that providers revert in mode log.
	Reverted []v1alpha1.Drift `json:"reverted"`
	// Released are the changes that are refused or held, and happen in mode log.
	Released []v1alpha1.Drift `json:"released"`
	// Policies of the cluster, and Steps of Compositions that hold changes.
	Policies []EmergencyPolicy `json:"policies"`
	Steps    []EmergencyStep   `json:"steps"`
}

// EmergencyPolicy is a Kausality policy.
type EmergencyPolicy struct {
	Name      string `json:"name"`
	Mode      string `json:"mode,omitempty"`
	Suspended bool   `json:"suspended,omitempty"`
	// Command that suspends the policy, or resumes it if it is suspended.
	Command string `json:"command"` // names of objects in it need no quotes: they are DNS names
}

// EmergencyStep is a step of a Composition in which the function holds changes.
type EmergencyStep struct {
	Composition string `json:"composition"`
	Step        string `json:"step"`
	// Gate: the step masks managementPolicies as well; in mode log it restores them.
	Gate bool `json:"gate,omitempty"`
	// FollowsPolicies: there are Kausality policies, which the step follows first, and their suspend, for what they cover.
	FollowsPolicies bool `json:"followsPolicies,omitempty"`
	// Command that sets mode log in the step.
	Command string `json:"command"`
}

// newEmergencyCommand returns `kubectl kausality emergency`. It writes nothing.
func newEmergencyCommand(s *session) *cobra.Command {
	c := &emergencyCommand{session: s}
	cmd := &cobra.Command{
		Use: "emergency", Short: "List what switching off would revert and release, and the commands for it.", Args: noArgs,
		Long: "Lists the external differences that providers revert, and the refused and held changes that happen, once enforcing ends; and prints " +
			"the commands, beginning with the one that refuses nothing and keeps gates closed. It reads all namespaces, and changes nothing.",
		Example: `  kubectl kausality emergency
  kubectl kausality emergency -o json`,
		RunE: runs(c),
	}
	c.format.add(cmd, formatJSON, formatYAML)
	return cmd
}

func (c *emergencyCommand) run(ctx context.Context) error {
	list, _, err := driftFinder{c.session}.open(c.cmd, nil, &driftFilter{everywhere: true})
	if err != nil {
		return err
	}
	e := &Emergency{Reverted: []v1alpha1.Drift{}, Released: []v1alpha1.Drift{}, Policies: []EmergencyPolicy{}, Steps: []EmergencyStep{}}
	e.add(list)
	conn, err := c.connection()
	if err != nil {
		return err
	}
	if err := each(ctx, conn, policyResource, e.policy); err != nil {
		return err
	}
	if err := each(ctx, conn, compositionResource, e.composition); err != nil {
		return err
	}
	if done, err := c.format.structured(c.Out, e); done {
		return err
	}
	return e.print(c.Out, c.view)
}

// each calls f with each object of a resource, a page at a time; none where its kind is not installed.
func each(ctx context.Context, client dynamic.Interface, r schema.GroupVersionResource, f func(*unstructured.Unstructured)) error {
	for o, err := range informer.Items(ctx, client.Resource(r), informer.PageSize) {
		if kerrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot list %s: %w", r.GroupResource(), err)
		}
		f(o)
	}
	return nil
}

// add adds open Drifts to what is reverted or released.
func (e *Emergency) add(list []v1alpha1.Drift) {
	for _, d := range list {
		if d.Spec.Relation == v1alpha1.RelationExternal && d.Spec.Operation == "" {
			e.Reverted = append(e.Reverted, d)
		} else {
			e.Released = append(e.Released, d)
		}
	}
}

// policy adds a Kausality policy.
func (e *Emergency) policy(o *unstructured.Unstructured) {
	p := EmergencyPolicy{Name: o.GetName()}
	p.Mode, _, _ = unstructured.NestedString(o.Object, "spec", "mode")
	p.Suspended, _, _ = unstructured.NestedBool(o.Object, "spec", "suspend")
	p.Command = fmt.Sprintf(`kubectl patch kausality %s --type=merge -p '{"spec":{"suspend":%t}}'`, p.Name, !p.Suspended)
	e.Policies = append(e.Policies, p)
}

// composition adds the steps of a Composition in which the function holds changes.
func (e *Emergency) composition(o *unstructured.Unstructured) {
	pipeline, _, _ := unstructured.NestedSlice(o.Object, "spec", "pipeline")
	for i := range pipeline {
		step, _ := pipeline[i].(map[string]any)
		in, _ := step["input"].(map[string]any)
		if gv, err := schema.ParseGroupVersion(fmt.Sprint(in["apiVersion"])); err != nil || gv.Group != input.Group || in["mode"] != string(input.ModeEnforce) {
			continue
		}
		s := EmergencyStep{Composition: o.GetName(), Step: fmt.Sprint(step["step"]), FollowsPolicies: len(e.Policies) > 0}
		policies, _, _ := unstructured.NestedString(in, "gate", "managementPolicies")
		s.Gate = policies == string(input.ManagementPoliciesManaged)
		s.Command = fmt.Sprintf(`kubectl patch composition %s --type=json -p '[{"op":"replace","path":"/spec/pipeline/%d/input/mode","value":"log"}]'`,
			s.Composition, i)
		e.Steps = append(e.Steps, s)
	}
}

// print prints the lists first, then the commands, the one with the least effect first.
func (e *Emergency) print(out io.Writer, v view) error {
	for _, part := range []struct {
		title  string
		drifts []v1alpha1.Drift
	}{
		{"Mode log, and ungate, revert in the external systems: ", e.Reverted},
		{"Mode log lets happen what is refused or held: ", e.Released},
	} {
		fmt.Fprintf(out, "%s%s\n", v.bold(part.title), channel.Plural(len(part.drifts), "change"))
		w := printers.GetNewTabWriter(out)
		for i := range part.drifts {
			d := &part.drifts[i]
			fmt.Fprintf(w, "  %s\t%s\n", d.Name, channel.Summary(d))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if len(e.Policies) > 0 {
		fmt.Fprintf(out, "\n%s nothing outside changes. Nothing is decided or traced meanwhile.\n", v.bold("Refuse nothing, and keep gates closed:"))
	}
	for _, p := range e.Policies {
		state := ""
		if p.Suspended {
			state = "   # is suspended; this resumes it"
		}
		fmt.Fprintf(out, "  %s%s\n", p.Command, state)
	}
	if len(e.Steps) > 0 {
		fmt.Fprintf(out, "\n%s what it holds happens with the next reconcile.\n", v.bold("The function holds changes by itself. Mode log in its step:"))
	}
	for _, s := range e.Steps {
		var notes []string
		if s.FollowsPolicies {
			notes = append(notes, "it follows the Kausality policies above for what they cover; its own mode counts for the rest")
		}
		if s.Gate {
			notes = append(notes, "this step also masks managementPolicies, and restores them")
		}
		fmt.Fprintf(out, "  %s%s\n", s.Command, channel.Part("   # ", strings.Join(notes, "; "), ""))
	}
	if len(e.Policies)+len(e.Steps) == 0 {
		fmt.Fprintln(out, "\nThere is no Kausality policy, and no step of the function in mode enforce.")
	}
	return nil
}
