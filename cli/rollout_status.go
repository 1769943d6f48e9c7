package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/internal/pause"
)

// barWidth in characters.
const barWidth = 20

// waveText describes a wave of a spec.
func waveText(w v1alpha1.RolloutWave) string {
	switch {
	case w.Count != nil:
		return strconv.Itoa(int(*w.Count))
	case w.Percent != nil:
		return "to " + strconv.Itoa(int(*w.Percent)) + "%"
	}
	return "by labels"
}

// printWaves prints the waves of a Rollout, with a bar each.
func (c *rolloutCommand) printWaves(out io.Writer, o *v1alpha1.Rollout) {
	w := printers.GetNewTabWriter(out)
	fmt.Fprintln(w, "WAVE\tOBJECTS\tWAITING\tLET THROUGH\tHEALTHY\tUNHEALTHY\tLEFT OUT\t")
	for i, n := range o.Status.Waves {
		mark := " "
		if int(o.Status.Wave) == i+1 {
			mark = "*"
		}
		fmt.Fprintf(w, "%s%d (%s)\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", mark, i+1, waveText(o.Spec.Waves[min(i, len(o.Spec.Waves)-1)]), n.Total, n.Waiting,
			n.Approved, n.Done,
			n.Unhealthy, n.LeftOut, bar(n))
	}
	_ = w.Flush() // an error of the output shows with the next line
}

// bar returns the bar of a wave: healthy, let through, unhealthy, waiting.
func bar(w v1alpha1.RolloutWaveStatus) string {
	if w.Total == 0 {
		return ""
	}
	var out strings.Builder
	drawn, sum := 0, 0
	for _, part := range []struct {
		n    int32
		mark string
	}{{w.Done, "#"}, {w.Approved, "+"}, {w.Unhealthy, "!"}, {w.LeftOut, "-"}, {w.Waiting, "."}} {
		sum += int(part.n)
		for ; drawn < sum*barWidth/int(w.Total); drawn++ {
			out.WriteString(part.mark)
		}
	}
	return out.String()
}

// print prints a Rollout as it is.
func (c *rolloutCommand) print(out io.Writer, o *v1alpha1.Rollout) {
	fmt.Fprintf(out, "%s %s: %s%s\n", c.kind(), o.Name, o.Status.Phase, channel.Part(", ", o.Status.Message, ""))
	if len(o.Status.Waves) > 0 {
		c.printWaves(out, o)
	}
	for _, u := range o.Status.Unhealthy {
		fmt.Fprintf(out, "  not healthy: %s: %s\n", u.Object, u.Reason)
	}
	for _, u := range o.Status.LeftOut {
		fmt.Fprintf(out, "  left out: %s: %s\n", u.Object, u.Reason)
	}
	switch o.Status.Phase {
	case v1alpha1.RolloutPending:
		if o.Status.Lacks != "" {
			fmt.Fprintf(out, "To approve it: kubectl kausality rollout approve%s\n", c.named())
		}
	case v1alpha1.RolloutStopped, v1alpha1.RolloutPaused:
		fmt.Fprintf(out, "To go on: kubectl kausality rollout resume%s\n", c.named())
	case v1alpha1.RolloutInvalid, v1alpha1.RolloutProgressing, v1alpha1.RolloutCompleted:
	}
}

// ended reports whether nothing more happens by itself.
func ended(o *v1alpha1.Rollout) bool {
	return slices.Contains([]v1alpha1.RolloutPhase{v1alpha1.RolloutCompleted, v1alpha1.RolloutStopped, v1alpha1.RolloutInvalid}, o.Status.Phase)
}

// follow follows the Rollout: print it to a stream, once, or until it has ended. On a terminal the lines are drawn over.
func (c *rolloutCommand) follow(ctx context.Context, to io.Writer, live bool) error {
	last := ""
	f, ok := to.(*os.File)
	over := ok && term.IsTerminal(int(f.Fd()))
	for {
		o, err := c.get(ctx)
		if err != nil {
			return err
		}
		var text strings.Builder
		if o.Status.Phase == "" {
			fmt.Fprintf(&text, "%s %s: its plan is not made yet\n", c.kind(), c.name())
		} else {
			c.print(&text, o)
		}
		if text.String() != last {
			if over && last != "" { // up by as many lines, and erase them
				fmt.Fprintf(to, "\x1b[%dA\x1b[J", strings.Count(last, "\n"))
			}
			last = text.String()
			if _, err := io.WriteString(to, last); err != nil {
				return err
			}
		}
		switch {
		case o.Status.Phase == v1alpha1.RolloutStopped && live:
			return fmt.Errorf("the rollout stopped: %s", o.Status.Message)
		case !live || ended(o):
			return nil
		}
		if !pause.For(ctx, time.Second) {
			return ctx.Err()
		}
	}
}

// rolloutStatusCommand shows a Rollout.
type rolloutStatusCommand struct {
	rolloutCommand
	watch bool
}

func newRolloutStatusCommand(s *session) *cobra.Command {
	c := &rolloutStatusCommand{rolloutCommand: rolloutCommand{session: s}}
	cmd := &cobra.Command{Use: "status NAME", Short: "Show how far a Rollout is.", Args: oneName,
		Example: `  kubectl kausality rollout status pg16

  # Until it has ended
  kubectl kausality rollout status pg16 --watch`,
		RunE: runs(c)}
	c.add(cmd)
	cmd.Flags().BoolVarP(&c.watch, "watch", "w", false, "Until it has ended.")
	c.format.add(cmd, formatJSON, formatYAML)
	return cmd
}

func (c *rolloutStatusCommand) run(ctx context.Context) error {
	if err := c.connect(); err != nil {
		return err
	}
	if c.format.value != formatTable {
		return c.printAs(ctx)
	}
	return c.follow(ctx, c.Out, c.watch)
}

// printAs prints the Rollout as it is now, in the format of -o.
func (c *rolloutCommand) printAs(ctx context.Context) error {
	u, err := c.rollouts.Get(ctx, c.name(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("cannot read %s %s: %w", c.kind(), c.name(), err)
	}
	return c.written(u, "%s\n", c.name())
}
