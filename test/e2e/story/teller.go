package story

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// Teller prints the story: what is typed, what happened, and whether that was
// expected.
type Teller struct {
	Out io.Writer
	// Color escapes for a terminal.
	Color bool
	since time.Time
}

func (t *Teller) paint(code, s string) string {
	if !t.Color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Chapter begins.
func (t *Teller) Chapter(n int, title string) {
	t.since = time.Now()
	fmt.Fprintf(t.Out, "\n%s\n", t.paint("1", fmt.Sprintf("%d. %s", n, title)))
}

// Types prints what a user types.
func (t *Teller) Types(who, command string) {
	prompt := "$"
	if who != "" {
		prompt = strings.SplitN(who, "@", 2)[0] + "$"
	}
	fmt.Fprintf(t.Out, "   %s\n", t.paint("36", prompt+" "+command))
}

// Reports what happened.
func (t *Teller) Reports(format string, args ...any) {
	for _, line := range strings.Split(fmt.Sprintf(format, args...), "\n") {
		fmt.Fprintf(t.Out, "     %s\n", line)
	}
}

// Right reports something that is as it should be.
func (t *Teller) Right(format string, args ...any) {
	fmt.Fprintf(t.Out, "   %s %s\n", t.paint("32", "✔"), fmt.Sprintf(format, args...))
}

// Wrong reports something that is not.
func (t *Teller) Wrong(err error) {
	fmt.Fprintf(t.Out, "   %s %s\n", t.paint("31", "✘"), err)
}

// took since the chapter began.
func (t *Teller) took() {
	fmt.Fprintf(t.Out, "   %s\n", t.paint("2", fmt.Sprintf("(%.1fs)", time.Since(t.since).Seconds())))
}

// Chapter of the story.
type Chapter struct {
	Title string
	// Needs are the parts of Kausality that it is about.
	Play func(ctx context.Context, e *Env, t *Teller) error
}

// Play all chapters in order; the first that goes wrong ends it.
func Play(ctx context.Context, e *Env, t *Teller, chapters []Chapter) error {
	for i, c := range chapters {
		t.Chapter(i+1, c.Title)
		if err := c.Play(ctx, e, t); err != nil {
			t.Wrong(err)
			return fmt.Errorf("chapter %d, %q: %w", i+1, c.Title, err)
		}
		t.took()
	}
	return nil
}
