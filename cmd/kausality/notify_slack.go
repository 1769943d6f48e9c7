package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/channel/slack"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

// notifySlackCommand shows pending changes in a channel of Slack.
func notifySlackCommand() *cobra.Command {
	p := processFlags{}
	var file, api, address, dir string
	tokens := slack.TokenFiles{}
	var roles bool
	cmd := &cobra.Command{
		Use: "slack", Short: "Show pending changes in a channel of Slack, where users decide about them by buttons.", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := slack.Load(file)
			if err != nil {
				return usageError{fmt.Errorf("--config-file: %w", err)}
			}
			if roles {
				return slack.WriteRoles(cmd.OutOrStdout(), c, manifests.Namespace)
			}
			t, err := tokens.Read()
			if err != nil {
				return usageError{err}
			}
			return p.run(cmd.Context(), "slack", func(ctx context.Context) error {
				return slack.Run(ctx, slack.Options{Process: p.Process, Config: c, Tokens: t, Reread: tokens.Read, Address: address, CertDir: dir,
					Namespace: manifests.Namespace, URL: api})
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&file, "config-file", "/etc/kausality-slack/config.yaml", "File with the channel, the workspace and the users who decide: docs/slack.md.")
	fl.StringVar(&tokens.Bot, "bot-token-file", "", "File with the bot token of the app, xoxb-…")
	fl.StringVar(&tokens.App, "app-token-file", "", "File with the app-level token, xapp-…, with the scope connections:write, for Socket Mode.")
	fl.StringVar(&tokens.Signing, "signing-secret-file", "",
		"File with the signing secret of the app, where Slack sends clicks by HTTP to "+slack.RequestPath+" instead of Socket Mode.")
	fl.StringVar(&address, "interactivity-bind-address", ":9444", "HOST:PORT to take clicks by HTTP on, with --signing-secret-file.")
	fl.StringVar(&dir, "interactivity-cert-dir", "",
		"Directory with the certificate tls.crt and its key tls.key for --interactivity-bind-address; plain HTTP, as behind an Ingress, where it is empty.")
	fl.StringVar(&api, "slack-api-url", "", "URL of Slack's Web API, with a slash at the end; empty for Slack's own.")
	fl.BoolVar(&roles, "print-roles", false, "Print the ServiceAccount, roles and bindings that the configuration needs, and exit.")
	p.addServing(fl)
	fl.BoolVar(&p.LeaderElection, "leader-elect", false, "Elect a leader among several replicas; it posts and decides, all of them take clicks.")
	fl.StringVar(&p.LeaderNamespace, "leader-elect-namespace", manifests.Namespace, "Namespace of the leader election's Lease.")
	return cmd
}
