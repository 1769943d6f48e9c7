package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/slack-go/slack"

	"github.com/kausality-io/function-kausality/channel"
)

// reasonView returns the modal for the reason of a rejection.
func reasonView(metadata string) slack.ModalViewRequest {
	input := slack.NewPlainTextInputBlockElement(plain("As in: not before the audit is over", 150), reasonInput)
	input.Multiline, input.MaxLength = true, maxReason
	return slack.ModalViewRequest{
		Type: slack.VTModal, CallbackID: rejectCallback, PrivateMetadata: metadata,
		Title: plain("Reject", 24), Submit: plain("Reject", 24), Close: plain("Cancel", 24),
		Blocks: slack.Blocks{BlockSet: []slack.Block{slack.NewInputBlock(reasonInput, plain("Why? It is part of each refusal.", 150), nil, input)}},
	}
}

// openReason opens the modal. What it is about is in its metadata.
func (s *interactions) openReason(ctx context.Context, trigger string, c click) error {
	raw, err := json.Marshal(click{Reference: c.Reference, Thread: c.Thread})
	if err != nil {
		return fmt.Errorf("cannot encode a click: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	_, err = s.api.client.OpenViewContext(ctx, trigger, reasonView(string(raw)))
	return explained(err)
}

// rejection stores the click of a rejection with its reason. It returns what the modal shows where the click is not stored.
func (s *interactions) rejection(ctx context.Context, in slack.InteractionCallback) (failed string) {
	about := click{}
	if err := json.Unmarshal([]byte(in.View.PrivateMetadata), &about); err != nil {
		return "Nothing was done: the dialog is of another release."
	}
	reason := ""
	if in.View.State != nil {
		reason = cut(strings.TrimSpace(channel.Printable(in.View.State.Values[reasonInput][reasonInput].Value)), maxReason)
	}
	if reason == "" {
		return "A reason is required."
	}
	return s.submit(ctx, in, click{Action: channel.ActionReject, Reference: about.Reference, Thread: about.Thread, Reason: reason})
}

// submit stores the click of a modal. It returns what the modal shows where the click is not stored.
func (s *interactions) submit(ctx context.Context, in slack.InteractionCallback, c click) (failed string) {
	c.Team, c.User, c.At, c.Event = teamOf(in), in.User.ID, s.now().UTC(), in.View.ID
	if err := s.keep(ctx, c); err != nil {
		return s.lostText(c, err)
	}
	return ""
}
