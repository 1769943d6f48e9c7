package slackfake

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Driver drives a fake, which may be another process.
type Driver struct{ URL string }

// do sends a request of a test.
func (d Driver) do(what string, in, out any) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("cannot encode a request: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL+"/control/"+what, bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("cannot create a request: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("cannot reach the fake of Slack: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // It was read.
	return json.NewDecoder(resp.Body).Decode(out)
}

// State returns the state of the fake.
func (d Driver) State() (s State, err error) { return s, d.do("state", nil, &s) }

// AddUser as users.info shows it.
func (d Driver) AddUser(u map[string]any) error { return d.do("user", u, &State{}) }

// Fail calls from now on; the zero value ends that.
func (d Driver) Fail(f Failure) error { return d.do("fail", f, &State{}) }

// Disconnect closes all connections of Socket Mode.
func (d Driver) Disconnect() error { return d.do("disconnect", nil, &State{}) }

// Click clicks on a button and returns how it was acknowledged.
func (d Driver) Click(c Click) (a Acknowledged, err error) { return a, d.do("click", c, &a) }

// Choose chooses in a modal.
func (d Driver) Choose(c Submission) (a Acknowledged, err error) { return a, d.do("choose", c, &a) }

// Submit submits a modal.
func (d Driver) Submit(c Submission) (a Acknowledged, err error) { return a, d.do("submit", c, &a) }

// Block returns the block of the buttons of a message, and the ids of its actions; empty for none.
func (m *Message) Block() (block string, actions []string) {
	var blocks []struct {
		Type     string `json:"type"`
		ID       string `json:"block_id"`
		Elements []struct {
			ActionID string `json:"action_id"`
		} `json:"elements"`
	}
	if json.Unmarshal([]byte(m.Blocks), &blocks) != nil {
		return "", nil
	}
	for _, b := range blocks {
		if b.Type != typeActions {
			continue
		}
		block = b.ID
		for _, e := range b.Elements {
			actions = append(actions, e.ActionID)
		}
	}
	return block, actions
}
