package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestVotes covers KR-14-41: what each form of an approval writes is what the webhook reads.
func TestVotes(t *testing.T) {
	const id = "1f2e3d4c5b6a7980"
	now := time.Date(2026, 1, 5, 9, 30, 0, 5, time.UTC)
	for name, tc := range map[string]struct {
		options  voteOptions
		reason   string
		have     string
		want     string
		question string
	}{
		"Plain":      {want: "once", question: "Approve %s (once)?"},
		"BreakGlass": {options: voteOptions{breakGlass: "it burns"}, want: "break-glass: it burns", question: "Break the glass for %s?"},
		"BreakGlassAgain": {options: voteOptions{breakGlass: "it burns"}, have: "once", want: "break-glass: it burns",
			question: "Break the glass for %s?"},
		"Withdraw":      {options: voteOptions{withdraw: true}, want: "withdraw", question: "Withdraw your approvals of %s?"},
		"WithdrawAgain": {options: voteOptions{withdraw: true}, have: "generation", want: "withdraw", question: "Withdraw your approvals of %s?"},
		"For": {options: voteOptions{period: 2 * time.Hour}, want: `[{"mode":"once","digest":"` + id + `","expiry":"2026-01-05T11:30:00Z"}]`,
			question: "Approve %s (once)?"},
		"ForReason": {options: voteOptions{period: time.Minute}, reason: "SHOP-17",
			want: `[{"mode":"once","digest":"` + id + `","reason":"SHOP-17","expiry":"2026-01-05T09:31:00Z"}]`, question: "Approve %s (once)?"},
	} {
		t.Run(name, func(t *testing.T) {
			key, edit := tc.options.vote("hans", id, v1alpha1.ApprovalOnce, tc.reason, now)
			annotations := map[string]string{}
			if tc.have != "" {
				annotations[key] = tc.have
			}
			if tc.options.withdraw {
				annotations[v1alpha1.AnnotationKeyClaims] = `[{"content":"x","state":"open","digest":"` + id +
					`","mode":"once","votes":true,"by":[{"user":"hans","at":null}]}]`
			}
			value, err := edit(annotations)
			if err != nil || value == nil || *value != tc.want {
				t.Fatalf("%v: wrote %q, want %s", err, annotations, tc.want)
			}
			if got := tc.options.question("once"); got != tc.question {
				t.Errorf("question %q, want %q", got, tc.question)
			}
			set := approval.Parse(map[string]string{key: *value})
			switch {
			case len(set.Warnings) > 0:
				t.Error(set.Warnings)
			case tc.options.withdraw:
				if len(set.Withdrawn) != 1 || len(set.Approvals) != 0 {
					t.Errorf("read as %+v", set)
				}
			case len(set.Approvals) != 1 || set.Approvals[0].Digest != id:
				t.Errorf("read as %+v", set.Approvals)
			case tc.options.breakGlass != "" && set.Approvals[0].BreakGlass != tc.options.breakGlass:
				t.Errorf("the reason is read as %q", set.Approvals[0].BreakGlass)
			case tc.options.period > 0 && !set.Approvals[0].Expiry.Equal(tc.options.expiry(now)):
				t.Errorf("the expiry is read as %v", set.Approvals[0].Expiry)
			}
		})
	}
	if _, edit := (&voteOptions{breakGlass: strings.Repeat("x", 600)}).vote("hans", id, "once", "", now); edit != nil {
		if value, err := edit(nil); err == nil {
			t.Errorf("a reason that the webhook refuses was written: %v", value)
		}
	}
}
