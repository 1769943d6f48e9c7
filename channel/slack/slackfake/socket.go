package slackfake

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gorilla/websocket"
)

// ackTimeout is how long Slack waits for the acknowledgement of a click.
const ackTimeout = 3 * time.Second

// socket serves one connection of Socket Mode.
func (s *Server) socket(w http.ResponseWriter, r *http.Request) {
	upgrade := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	c, err := upgrade.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	hello := map[string]any{"type": "hello", "num_connections": 1, "connection_info": map[string]any{"app_id": "A0FAKE00"}}
	s.mu.Lock()
	err = c.WriteJSON(hello)
	s.sockets = append(s.sockets, c)
	s.mu.Unlock()
	s.changed()
	for err == nil {
		answer := struct {
			EnvelopeID string          `json:"envelope_id"`
			Payload    json.RawMessage `json:"payload"`
		}{}
		if err = c.ReadJSON(&answer); err == nil {
			s.mu.Lock()
			if ack := s.acks[answer.EnvelopeID]; ack != nil {
				delete(s.acks, answer.EnvelopeID)
				ack <- answer.Payload
			}
			s.mu.Unlock()
		}
	}
	defer s.changed()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sockets = slices.DeleteFunc(s.sockets, func(have *websocket.Conn) bool { return have == c })
	_ = c.Close()
}

// errNoAck is the error of a click that was not acknowledged in time: Slack shows a warning, and does not send it again.
var errNoAck = errors.New("not acknowledged within 3 s")

// send sends a payload to one of the connections, and returns how it was acknowledged.
func (s *Server) send(payload map[string]any) (json.RawMessage, error) {
	if s.Requests != "" {
		return s.request(payload)
	}
	s.mu.Lock()
	if len(s.sockets) == 0 {
		s.mu.Unlock()
		return nil, errors.New("no connection")
	}
	s.next++
	id, c := fmt.Sprintf("envelope-%d", s.next), s.sockets[s.next%len(s.sockets)]
	if s.acks == nil {
		s.acks = map[string]chan json.RawMessage{}
	}
	ack := make(chan json.RawMessage, 1)
	s.acks[id] = ack
	err := c.WriteJSON(map[string]any{"type": "interactive", "envelope_id": id, "payload": payload, "accepts_response_payload": true})
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case p := <-ack:
		return p, nil
	case <-time.After(ackTimeout):
		return nil, errNoAck
	}
}
