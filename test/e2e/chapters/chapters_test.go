package chapters

import (
	"os"
	"testing"

	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// TestStory plays every chapter, with webhook, gate and function (KR-04-15, KR-09-15).
func TestStory(t *testing.T) {
	play(t, story.Options{Webhook: true, Function: true}, story.Chapters)
}

// TestFunctionOnly plays what the function does by itself (KR-09-02, KR-09-10).
func TestFunctionOnly(t *testing.T) {
	play(t, story.Options{Function: true}, story.FunctionOnly)
}

// TestAnswers plays one table of policies and modes with webhook and gate, with the function
// beside them, and with what an uninstall leaves. TestFunctionOnly plays it with the function
// by itself (KR-09-23, KR-09-24).
func TestAnswers(t *testing.T) {
	t.Run("Webhook", func(t *testing.T) { play(t, story.Options{Webhook: true, WithoutObjects: true}, story.Answers) })
	t.Run("Both", func(t *testing.T) {
		play(t, story.Options{Webhook: true, Function: true, WithoutObjects: true}, story.AnswersUninstalled)
	})
}

// TestWebhookOnly plays what webhook and gate do without the function.
func TestWebhookOnly(t *testing.T) {
	play(t, story.Options{Webhook: true}, story.WebhookOnly)
}

// TestClaims plays the story of a legacy Claim.
func TestClaims(t *testing.T) {
	play(t, story.Options{Webhook: true, Function: true}, story.Claims)
}

// TestPolicies plays what AllowancePolicies do, with webhook and gate.
func TestPolicies(t *testing.T) {
	play(t, story.Options{Webhook: true}, story.AllowancePolicies)
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
