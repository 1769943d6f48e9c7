package view

import (
	"context"
	"errors"
	"net/http"

	kerrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kausality-io/function-kausality/channel/actor"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

// State that the user is shown in place of what could not be shown or done (KR-17-16).
type State struct {
	// Status is its class, as HTTP has them.
	Status      int
	Title, Text string
	// Kept: what the user has entered is good, and can be sent again.
	Kept bool
}

// Error returns its text.
func (s *State) Error() string { return s.Title + ": " + s.Text }

// stateOf returns the state of an error of the cluster, as the user is shown it. A State is itself.
func (o *Options) stateOf(err error) *State {
	if state := (*State)(nil); errors.As(err, &state) {
		return state
	}
	switch {
	case kerrors.IsUnauthorized(err):
		return &State{Status: http.StatusUnauthorized, Title: "The cluster does not know you any more",
			Text: o.Expired + " The cluster answers: " + err.Error()}
	case kerrors.IsForbidden(err):
		return &State{Status: http.StatusForbidden, Title: "You may not read that",
			Text: "The ClusterRole kausality-viewer grants it to those it is bound to. The cluster answers: " + err.Error()}
	case kerrors.IsNotFound(err):
		return &State{Status: http.StatusNotFound, Title: "It does not exist", Text: err.Error()}
	case isAway(err):
		return &State{Status: http.StatusServiceUnavailable, Title: "The API server does not answer",
			Text: o.Again + " " + err.Error()}
	}
	return &State{Status: http.StatusInternalServerError, Title: "That did not work", Text: err.Error()}
}

// isAway reports whether an error is that the API server does not answer, or not in time.
func isAway(err error) bool {
	if status := kerrors.APIStatus(nil); errors.As(err, &status) {
		return kerrors.IsServerTimeout(err) || kerrors.IsTimeout(err) || kerrors.IsServiceUnavailable(err) || kerrors.IsTooManyRequests(err)
	}
	network := interface{ Timeout() bool }(nil)
	return errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded)
}

// notWritten returns the state of a decision that the cluster did not take.
func (o *Options) notWritten(err error) *State {
	switch {
	case kerrors.IsForbidden(err):
		return &State{Status: http.StatusForbidden, Title: "Nothing was done: you may not do that",
			Text: "It takes the verbs get and patch on the object that holds decisions and, where approver RBAC is on, the verb approve on its subresource " +
				"approval. The cluster answers: " + err.Error()}
	case errors.Is(err, annotate.ErrOther):
		return &State{Status: http.StatusConflict, Title: "Nothing was done", Text: err.Error()}
	case errors.As(err, new(*actor.RefusedError)), kerrors.IsInvalid(err), kerrors.IsBadRequest(err), kerrors.IsNotFound(err):
		return &State{Status: http.StatusUnprocessableEntity, Title: "Nothing was done", Text: err.Error()}
	case isAway(err):
		return &State{Status: http.StatusServiceUnavailable, Title: "The API server does not answer",
			Text: "It is not known whether it was written. What you have entered is still here: send it again; the second time changes nothing. " + err.Error()}
	}
	return o.stateOf(err)
}

// kept is an error before anything was written: what was entered can be sent again.
func (o *Options) kept(err error) error {
	if state := (*State)(nil); errors.As(err, &state) {
		return state
	}
	state := o.stateOf(err)
	state.Text = "Nothing was written, and what you have entered is still here: send it again. " + state.Text
	state.Kept = true
	return state
}
