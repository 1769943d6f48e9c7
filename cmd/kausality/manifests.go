package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/choice"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

// manifestsCommand prints what an installation without Helm applies.
func manifestsCommand() *cobra.Command {
	o := manifests.Options{}
	var caFile string
	cmd := &cobra.Command{
		Use: "manifests", Short: "Print the CRDs, access rules and webhook configuration, ready for kubectl apply -f -.", Args: noArgs,
		Example: "  kausality manifests --webhook-url=https://10.0.0.7:9443 --ca-file=ca.crt " +
			"--resources='deployments.apps,configmaps,*.example.org' | kubectl apply -f -",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if caFile != "" {
				raw, err := os.ReadFile(caFile) //nolint:gosec // The operator names the file.
				if err != nil {
					return fmt.Errorf("--ca-file: %w", err)
				}
				o.CABundle = raw
			}
			out, err := manifests.Render(o)
			if err != nil {
				return usageError{err}
			}
			_, err = cmd.OutOrStdout().Write(out)
			return err
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&o.CRDsOnly, "crds-only", false, "Print only the CRDs; no other flag is needed then.")
	fl.BoolVar(&o.FunctionOnly, "function-only", false,
		"Print only what the composition function needs without a webhook: the CRDs, and the role by which Crossplane reads them.")
	fl.BoolVar(&o.Embedded, "embedded", false, "Print what an API server needs that has Kausality within (docs/library.md): it calls no webhook, "+
		"and --webhook-url and --ca-file are not needed.")
	fl.StringVar(&o.WebhookURL, "webhook-url", "", "https://HOST:PORT where the webhook listens.")
	fl.StringVar(&caFile, "ca-file", "", "PEM certificates that the webhook's serving certificate is checked against.")
	fl.StringSliceVar(&o.Resources, "resources", nil, "Resources to guard: deployments.apps, configmaps, *.example.org for a whole group.")
	fl.Int32Var(&o.TimeoutSeconds, "webhook-timeout", manifests.DefaultTimeoutSeconds, webhookTimeoutHelp)
	fl.StringArrayVar(&o.ComponentUsers, "component-user", nil, "User that webhook or gate run as where it is not their own ServiceAccount; repeatable.")
	mode := choice.One(&o.DefaultMode, v1alpha1.ModeLog, v1alpha1.ModeLog+" (no request is refused while the webhook is down)", v1alpha1.ModeEnforce)
	fl.Var(mode, "default-mode", "Mode the webhook runs in: "+mode.List()+".")
	policy := choice.One(&o.FailurePolicy, "", admissionregistrationv1.Ignore, admissionregistrationv1.Fail)
	fl.Var(policy, "failure-policy", policy.List()+"; derived from --default-mode where empty.")
	return cmd
}
