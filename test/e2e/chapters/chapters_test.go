package chapters

import (
	"os"
	"slices"
	"testing"

	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// TestStory plays every chapter, with webhook, gate and function, with Slack, and with a receiver of reports that is away all the time
// (KR-04-15, KR-09-15, KR-10-14, KR-10-20, KR-17-09).
func TestStory(t *testing.T) {
	play(t, story.Options{Webhook: true, Function: true, Receiver: true, Slack: true}, slices.Concat(story.Chapters, story.Reported))
}

// TestFunctionOnly plays what the function does by itself, with the table of policies and modes
// (KR-09-02, KR-09-10, KR-09-23).
func TestFunctionOnly(t *testing.T) {
	play(t, story.Options{Function: true}, story.FunctionOnly)
}

// TestWebhookOnly plays what webhook and gate do without the function, with the table of policies and
// modes that the others play, too (KR-09-23).
func TestWebhookOnly(t *testing.T) {
	play(t, story.Options{Webhook: true}, story.WebhookOnly)
}

// TestClaims plays the story of a legacy Claim, and then what an uninstall of webhook and gate leaves,
// with one table of policies and modes before and after it (KR-09-23, KR-09-24).
func TestClaims(t *testing.T) {
	play(t, story.Options{Webhook: true, Function: true}, slices.Concat(story.Claims, story.Uninstalled))
}

// TestPolicies plays what AllowancePolicies do, with webhook and gate.
func TestPolicies(t *testing.T) {
	play(t, story.Options{Webhook: true}, story.AllowancePolicies)
}

// TestPoliciesInFull plays what AllowancePolicies do that are written in full.
func TestPoliciesInFull(t *testing.T) {
	play(t, story.Options{Webhook: true}, story.AllowancePoliciesInFull)
}

func play(t *testing.T, o story.Options, chapters []story.Chapter) {
	t.Helper()
	ctx, e := story.StartTest(t, o)
	teller := &story.Teller{Out: os.Stdout}
	played := 0
	for i, c := range chapters {
		ok := t.Run(c.Title, func(t *testing.T) {
			played++
			teller.Chapter(i+1, c.Title)
			if err := c.Play(ctx, e, teller); err != nil {
				e.Dump(ctx, os.Stdout)
				t.Fatal(err)
			}
		})
		if !ok {
			return // the next chapter begins where this one ends
		}
	}
	if played == 0 {
		t.Fatal("no chapter has the title that -run selects")
	}
}
