package slackfake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Click of a user on a button or in a menu.
type Click struct {
	User, Team string
	// TS of the message, and the block and the id of the action. Value is the option of a menu.
	TS, Block, Action, Value string
}

// Submission is what a user enters in a modal, or chooses in one before.
type Submission struct {
	User, Team string
	View       string
	// Reason that is entered; Chosen are the values of menus by the ids of their blocks.
	Reason string
	Chosen map[string]string
}

// State of the fake.
type State struct {
	Messages []*Message     `json:"messages"`
	Views    []*View        `json:"views"`
	Calls    map[string]int `json:"calls"`
	Sockets  int            `json:"sockets"`
	// Limited calls, which were answered by 429.
	Limited int `json:"limited"`
}

// Acknowledged is how a click was: Error is empty where it was in time.
type Acknowledged struct {
	Error   string          `json:"error,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// control answers a test.
func (s *Server) control(w http.ResponseWriter, r *http.Request, what string) {
	switch what {
	case "click":
		c := Click{}
		_ = json.NewDecoder(r.Body).Decode(&c)
		s.acknowledged(w, s.actionOf(&c))
	case "choose":
		c := Submission{}
		_ = json.NewDecoder(r.Body).Decode(&c)
		s.acknowledged(w, s.choiceOf(&c))
	case "submit":
		c := Submission{}
		_ = json.NewDecoder(r.Body).Decode(&c)
		s.acknowledged(w, s.submissionOf(&c))
	default:
		s.set(w, r, what)
	}
}

// set sets what a test wants the fake to be, and answers its state.
func (s *Server) set(w http.ResponseWriter, r *http.Request, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch what {
	case "state":
	case "user":
		u := map[string]any{}
		_ = json.NewDecoder(r.Body).Decode(&u)
		if s.users == nil {
			s.users = map[string]map[string]any{}
		}
		s.users[fmt.Sprint(u["id"])] = u
	case "fail":
		f := &Failure{}
		_ = json.NewDecoder(r.Body).Decode(f)
		if s.failure = f; f.Code == "" && f.Status == 0 {
			s.failure = nil
		}
	case "disconnect":
		for _, c := range s.sockets {
			_ = c.Close()
		}
	default:
		http.NotFound(w, r)
		return
	}
	write(w, State{Messages: s.messages, Views: s.views, Calls: s.calls, Sockets: len(s.sockets), Limited: s.rate.limited})
}

// acknowledged answers how a payload was.
func (s *Server) acknowledged(w http.ResponseWriter, payload map[string]any) {
	out := Acknowledged{}
	p, err := s.send(payload)
	if err != nil {
		out.Error = err.Error()
	}
	out.Payload = p
	write(w, out)
}

// actionOf returns the action of a click, as Slack sends it.
func (s *Server) actionOf(c *Click) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	thread := ""
	for _, m := range s.messages {
		if m.TS == c.TS {
			thread = m.ThreadTS
		}
	}
	action := map[string]any{"type": typeButton, "block_id": c.Block, "action_id": c.Action, "action_ts": fmt.Sprintf("%d.%06d", time.Now().Unix(), s.last)}
	if c.Value != "" {
		action["type"], action["selected_option"] = typeStaticSelect, map[string]any{"value": c.Value}
	}
	return map[string]any{
		"type": "block_actions", "team": map[string]any{"id": Team}, "user": map[string]any{"id": c.User, "team_id": c.Team},
		"channel":    map[string]any{"id": Channel},
		"container":  map[string]any{"type": "message", "message_ts": c.TS, "channel_id": Channel, "thread_ts": thread},
		"trigger_id": fmt.Sprintf("trigger-%d", s.last),
		"message":    map[string]any{"ts": c.TS, "thread_ts": thread}, "actions": []any{action}, "response_url": s.URL + "/response",
	}
}

// submissionOf returns the submission of a modal, as Slack sends it.
func (s *Server) submissionOf(c *Submission) map[string]any {
	return map[string]any{
		"type": "view_submission", "team": map[string]any{"id": Team}, "user": map[string]any{"id": c.User, "team_id": c.Team}, "view": s.viewOf(c),
	}
}

// choiceOf returns an option that is chosen in a modal, as Slack sends it.
func (s *Server) choiceOf(c *Submission) map[string]any {
	return map[string]any{
		"type": "block_actions", "team": map[string]any{"id": Team}, "user": map[string]any{"id": c.User, "team_id": c.Team}, "view": s.viewOf(c),
		"container": map[string]any{"type": "view", "view_id": c.View}, "actions": []any{},
	}
}

// viewOf returns a modal with what is entered in it.
func (s *Server) viewOf(c *Submission) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]any{"id": c.View, "type": "modal", "hash": "1"}
	for _, v := range s.views {
		if v.ID == c.View {
			shown := struct {
				CallbackID string `json:"callback_id"`
			}{}
			_ = json.Unmarshal(v.Raw, &shown)
			out["private_metadata"], out["callback_id"] = v.Metadata, shown.CallbackID
		}
	}
	values := map[string]any{}
	if c.Reason != "" {
		values["reason"] = map[string]any{"reason": map[string]any{"type": "plain_text_input", "value": c.Reason}}
	}
	for block, value := range c.Chosen {
		values[block] = map[string]any{"kausality:" + block: map[string]any{"type": typeStaticSelect, "selected_option": map[string]any{"value": value}}}
	}
	out["state"] = map[string]any{"values": values}
	return out
}
