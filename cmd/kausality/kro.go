package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/kro"
)

// kroCommand groups what works on ResourceGraphDefinitions.
func kroCommand() *cobra.Command {
	return group("kro", "Derive policies from the graphs of kro.", kroDeriveCommand())
}

// kroDeriveCommand prints what the controller applies for the same graphs.
func kroDeriveCommand() *cobra.Command {
	var files []string
	user := kro.DefaultServiceAccount.Namespace + "/" + kro.DefaultServiceAccount.Name
	cmd := &cobra.Command{
		Use:   "derive -f FILE...",
		Short: "Print the AllowancePolicies of ResourceGraphDefinitions.",
		Long: `Prints AllowancePolicies that allow what the expressions of ResourceGraphDefinitions let a
change of an instance change in its resources. Each rule names the lines of the graph that
it was derived from. Lines that depend on something else, such as an external object, are
listed above the policy: no rule is made for that.`,
		Example: `  kausality kro derive -f graph.yaml | kubectl apply -f -
  kubectl get rgd webapp -o yaml | kausality kro derive -f -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := noArgs(cmd, args); err != nil {
				return err
			}
			if len(files) == 0 {
				return usageError{fmt.Errorf("name the files with graphs with -f; see %s --help", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			namespace, name, ok := strings.Cut(user, "/")
			if !ok || namespace == "" || name == "" {
				return usageError{fmt.Errorf("--service-account %q must be NAMESPACE/NAME", user)}
			}
			account := v1alpha1.Subject{Kind: v1alpha1.SubjectServiceAccount, Namespace: namespace, Name: name}
			var out bytes.Buffer // nothing is printed where one of the graphs is invalid
			for _, file := range files {
				if err := deriveGraphs(&out, cmd.InOrStdin(), file, account); err != nil {
					return err
				}
			}
			_, err := out.WriteTo(cmd.OutOrStdout())
			return err
		},
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "File with ResourceGraphDefinitions, YAML or JSON; - for standard input.")
	cmd.Flags().StringVar(&user, "service-account", user, "NAMESPACE/NAME of the ServiceAccount of kro.")
	return cmd
}

// deriveGraphs writes the policies of the graphs in a file.
func deriveGraphs(out io.Writer, stdin io.Reader, file string, account v1alpha1.Subject) error {
	in := stdin
	if file != "-" {
		opened, err := os.Open(file) //nolint:gosec // the user names it
		if err != nil {
			return err
		}
		defer func() { _ = opened.Close() }()
		in = opened
	}
	graphs, err := kro.Read(in)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for i := range graphs {
		derived, err := kro.Derive(&graphs[i], account)
		if err != nil {
			return fmt.Errorf("%s: ResourceGraphDefinition %s: %w", file, graphs[i].Name, err)
		}
		if err := derived.Write(out); err != nil {
			return err
		}
	}
	return nil
}
