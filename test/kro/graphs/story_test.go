package graphs

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

var the *Env

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(controlplane.Main(m, func(ctx context.Context) (stop func(), err error) {
		the, err = Start(ctx, Options{Dir: os.Getenv("KAUSALITY_INTEGRATION_DIR"), Out: os.Stderr, Kausality: os.Getenv("KAUSALITY_BINARY")})
		return the.Stop, err
	}))
}

// TestStory plays what make demo-kro plays (KR-18-01, KR-18-03, KR-18-05, KR-18-06, KR-18-09).
func TestStory(t *testing.T) {
	teller := &story.Teller{Out: os.Stdout}
	for i, c := range the.Chapters() {
		if !t.Run(c.Title, func(t *testing.T) {
			teller.Chapter(i+1, c.Title)
			require.NoError(t, c.Play(t.Context(), nil, teller))
		}) {
			return // the next chapter begins where this one ends
		}
	}
}
