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
	var file, bot, app, api string
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
			t, err := slack.ReadTokens(bot, app)
			if err != nil {
				return usageError{err}
			}
			return p.run(cmd.Context(), "slack", func(ctx context.Context) error {
				return slack.Run(ctx, slack.Options{Process: p.Process, Config: c, Tokens: t, Namespace: manifests.Namespace, URL: api,
					Reread: func() (slack.Tokens, error) { return slack.ReadTokens(bot, app) }})
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&file, "config-file", "/etc/kausality-slack/config.yaml", "File with the channel, the workspace and the users who decide: docs/slack.md.")
	fl.StringVar(&bot, "bot-token-file", "", "File with the bot token of the app, xoxb-…")
	fl.StringVar(&app, "app-token-file", "", "File with the app-level token, xapp-…, with the scope connections:write.")
	fl.StringVar(&api, "slack-api-url", "", "URL of Slack's Web API, with a slash at the end; empty for Slack's own.")
	fl.BoolVar(&roles, "print-roles", false, "Print the ServiceAccount, roles and bindings that the configuration needs, and exit.")
	p.addServing(fl)
	fl.BoolVar(&p.LeaderElection, "leader-elect", false, "Elect a leader among several replicas; it posts and decides, all of them take clicks.")
	fl.StringVar(&p.LeaderNamespace, "leader-elect-namespace", manifests.Namespace, "Namespace of the leader election's Lease.")
	return cmd
}
