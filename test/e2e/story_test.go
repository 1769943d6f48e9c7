// Package e2e plays the whole story, and its variants, on real parts.
package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/test/story"
)

// start an Env whose logs are kept where KAUSALITY_E2E_DIR says, for a look
// after a failure.
func start(t *testing.T, o story.Options) (context.Context, *story.Env) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	if base := os.Getenv("KAUSALITY_E2E_DIR"); base != "" {
		o.Dir = base + "/" + t.Name()
	}
	o.Out = os.Stdout
	e, err := story.Start(ctx, o)
	t.Cleanup(e.Stop)
	if err != nil {
		t.Fatal(err)
	}
	return ctx, e
}

// TestStory plays every chapter, with webhook, gate and function.
func TestStory(t *testing.T) {
	ctx, e := start(t, story.Options{Webhook: true, Function: true})
	teller := &story.Teller{Out: os.Stdout}
	for i, c := range story.Chapters {
		ok := t.Run(c.Title, func(t *testing.T) {
			teller.Chapter(i+1, c.Title)
			if err := c.Play(ctx, e, teller); err != nil {
				t.Fatal(err)
			}
		})
		if !ok {
			return // the next chapter begins where this one ends
		}
	}
}
