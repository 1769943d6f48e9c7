package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// newVersionCommand returns `kubectl kausality version`. It needs no cluster.
func newVersionCommand(s *session) *cobra.Command {
	f := format{}
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version.", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if structured, err := f.structured(s.Out, map[string]string{"version": s.version}); structured {
				return err
			}
			_, err := fmt.Fprintln(s.Out, s.version)
			return err
		},
	}
	f.add(cmd, formatJSON, formatYAML)
	return cmd
}
