package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/page/hosted"
	"github.com/kausality-io/function-kausality/cli/choice"
)

// pageCommand serves the page for users without a kubeconfig. What the users are, and who may log in, is in a file: the chart renders the roles of the
// process from the same values.
func pageCommand() *cobra.Command {
	p := processFlags{}
	o := hosted.Options{}
	// file is read before the process starts, so that what is wrong in it is a usage error.
	var file string
	cmd := &cobra.Command{
		Use: "page", Short: "Serve the page on which users look at pending changes and decide, each with their own rights.", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := hosted.Load(file)
			if err != nil {
				return usageError{fmt.Errorf("--config-file: %w", err)}
			}
			return p.run(cmd.Context(), "page", func(ctx context.Context) error {
				o.Process, o.Config = p.Process, c
				return hosted.Run(ctx, o)
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&file, "config-file", "/etc/kausality-page/config.yaml", "File with the URL of the page, the login, and the users: docs/page.md.")
	fl.StringVar(&o.KeysDir, "cookie-keys-dir", "/etc/kausality-page/keys", "Directory with the keys of cookies: the file key seals them, every file opens them.")
	fl.StringVar(&o.SecretFile, "oidc-client-secret-file", "", "File with the secret of the client at the issuer; none for a public client.")
	fl.StringVar(&o.CAFile, "oidc-ca-file", "", "File with the certificates that sign that of the issuer; those of the system where it is empty.")
	fl.StringVar(&o.Address, "bind-address", ":9445", "HOST:PORT of the page.")
	fl.StringVar(&o.CertDir, "cert-dir", "", "Directory with the certificate tls.crt and its key tls.key; plain HTTP, as behind an Ingress, where it is empty.")
	mode := choice.One(&o.DefaultMode, "", v1alpha1.ModeLog, v1alpha1.ModeEnforce)
	fl.Var(mode, "default-mode",
		"Mode where neither the object nor its Namespace sets one: "+mode.List()+". By default it is derived from the webhook configuration.")
	// No leader is elected, and nothing is stored: each replica answers any request.
	p.addServing(fl)
	return cmd
}
