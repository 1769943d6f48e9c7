package cli

import (
	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// newWithdrawCommand is `kubectl kausality withdraw`: it is approve --withdraw.
func newWithdrawCommand(s *session) *cobra.Command {
	c := &approveCommand{session: s, mode: v1alpha1.ApprovalOnce}
	c.voteOptions.withdraw = true
	cmd := &cobra.Command{
		Use: "withdraw ID... | TYPE/NAME... | TYPE -l LABELS | --cause KEY | -l LABELS | --all", Short: "Withdraw your own approvals.",
		Long: "Withdraws your own approvals of differences that wait; those of other users stay, and so do rejections, which " +
			"kubectl kausality reject --withdraw removes. What an approval has let through already is not undone.",
		Example: `  kubectl kausality withdraw 7642947475a29290

  # Of all pending changes below one object, after confirmation
  kubectl kausality withdraw xdatabase/orders`,
		ValidArgsFunction: completer{s}.ids,
		RunE:              c.run,
	}
	c.writeOptions.add(cmd)
	c.changeOptions.add(cmd, "All pending changes of the namespace but those of external resources.")
	return cmd
}
