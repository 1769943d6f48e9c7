package slackfake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Tokens, workspace and channel that the fake knows.
const (
	BotToken, AppToken = "xoxb-fake", "xapp-fake"
	SigningSecret      = "fakefakefakefakefakefakefakefake"
	Team, Channel, Bot = "T0FAKE00", "C0FAKE00", "U0BOT000"
)

// Message that was posted.
type Message struct {
	TS       string `json:"ts"`
	ThreadTS string `json:"threadTS,omitempty"`
	// Ephemeral is the only user who sees it; empty for all.
	Ephemeral string `json:"ephemeral,omitempty"`
	// Broadcast: a message of a thread that the channel shows, too.
	Broadcast bool   `json:"broadcast,omitempty"`
	Text      string `json:"text"`
	// Blocks as JSON.
	Blocks string `json:"blocks"`
	// Edits that it had.
	Edits int `json:"edits"`
}

// View that was opened.
type View struct {
	ID       string          `json:"id"`
	Trigger  string          `json:"trigger"`
	Metadata string          `json:"metadata"`
	Raw      json.RawMessage `json:"raw"`
}

// Failure of the methods of the Web API.
type Failure struct {
	// Code is an error of Slack, as token_revoked; Status is that of HTTP, as 503. RetryAfter goes with 429.
	Code       string `json:"code,omitempty"`
	Status     int    `json:"status,omitempty"`
	RetryAfter int    `json:"retryAfter,omitempty"`
	// Methods that fail; none for all. Times that it happens; 0 for always.
	Methods []string `json:"methods,omitempty"`
	Times   int      `json:"times,omitempty"`
}

// Server is the fake. The zero value is ready.
type Server struct {
	// URL by which it is reached, with http:// and without a slash at the end.
	URL string
	// Requests is where interactions are sent by HTTP, signed by SigningSecret; empty for Socket Mode.
	Requests string
	// PerSecond is how many messages the channel takes in a second, after a burst of Burst; 0 for any number.
	PerSecond, Burst float64
	// Changed is called whenever messages or connections are others than before; nil for none.
	Changed func()

	mu       sync.Mutex
	messages []*Message
	views    []*View
	calls    map[string]int
	users    map[string]map[string]any
	failure  *Failure
	last     int64
	rate     bucket
	sockets  []*websocket.Conn
	acks     map[string]chan json.RawMessage
	next     int
}

// bucket of the messages that the channel takes.
type bucket struct {
	tokens float64
	at     time.Time
	// limited calls, which were answered by 429.
	limited int
}

// ServeHTTP is the Web API, Socket Mode and what tests control it by.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/socket":
		s.socket(w, r)
	case strings.HasPrefix(r.URL.Path, "/control/"):
		s.control(w, r, strings.TrimPrefix(r.URL.Path, "/control/"))
	default:
		s.api(w, r, strings.TrimPrefix(r.URL.Path, "/api/"))
	}
}

// changed calls Changed.
func (s *Server) changed() {
	if s.Changed != nil {
		s.Changed()
	}
}

// write writes an answer as JSON.
func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// refuse refuses a call by a code of Slack.
func refuse(w http.ResponseWriter, code, why string) {
	write(w, map[string]any{"ok": false, "error": code, "response_metadata": map[string]any{"messages": []string{why}}})
}

// failing answers a call by the failure that a test has set; false where there is none for it.
func (s *Server) failing(w http.ResponseWriter, method string) bool {
	f := s.failure
	if f == nil || len(f.Methods) > 0 && !slices.Contains(f.Methods, method) {
		return false
	}
	if f.Times > 0 {
		if f.Times--; f.Times == 0 {
			s.failure = nil
		}
	}
	switch {
	case f.Status == http.StatusTooManyRequests:
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		http.Error(w, "ratelimited", f.Status)
	case f.Status != 0:
		http.Error(w, "failing", f.Status)
	default:
		refuse(w, f.Code, "")
	}
	return true
}

// api answers a method of the Web API.
func (s *Server) api(w http.ResponseWriter, r *http.Request, method string) {
	defer s.changed()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	s.calls[method]++
	if s.failing(w, method) {
		return
	}
	want := BotToken
	if method == "apps.connections.open" {
		want = AppToken
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	var body map[string]any
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		_ = json.NewDecoder(r.Body).Decode(&body)
	} else if token == "" {
		token = r.FormValue("token")
	}
	if token != want {
		refuse(w, codeInvalidAuth, "")
		return
	}
	s.method(w, r, method, body)
}

// method answers a method of the Web API for a client with the right token.
func (s *Server) method(w http.ResponseWriter, r *http.Request, method string, body map[string]any) {
	switch method {
	case "auth.test":
		write(w, map[string]any{"ok": true, "team_id": Team, "user_id": Bot, "bot_id": "B0BOT000"})
	case "apps.connections.open":
		write(w, map[string]any{"ok": true, "url": "ws" + strings.TrimPrefix(s.URL, "http") + "/socket"})
	case "conversations.info":
		if r.FormValue("channel") != Channel {
			refuse(w, codeChannelNotFound, "")
			return
		}
		write(w, map[string]any{"ok": true, "channel": map[string]any{"id": Channel, "is_member": true}})
	case "users.info":
		u := s.users[r.FormValue("user")]
		if u == nil {
			refuse(w, codeUserNotFound, "")
			return
		}
		write(w, map[string]any{"ok": true, "user": u})
	case "chat.postMessage", "chat.postEphemeral", "chat.update":
		s.chat(w, r, method)
	case "views.open":
		s.view(w, body)
	case "views.update":
		s.update(w, body)
	default:
		refuse(w, "unknown_method", method)
	}
}

// limit reports whether the channel takes no message now.
func (s *Server) limit() bool {
	if s.PerSecond == 0 {
		return false
	}
	now, b := time.Now(), &s.rate
	if b.at.IsZero() {
		b.tokens = s.Burst
	}
	b.tokens = min(s.Burst, b.tokens+now.Sub(b.at).Seconds()*s.PerSecond)
	if b.at = now; b.tokens < 1 {
		b.limited++
		return true
	}
	b.tokens--
	return false
}

// chat posts or changes a message.
func (s *Server) chat(w http.ResponseWriter, r *http.Request, method string) {
	if s.limit() {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "ratelimited", http.StatusTooManyRequests)
		return
	}
	text, blocks := r.FormValue("text"), r.FormValue("blocks")
	switch code, why := Invalid(blocks); {
	case r.FormValue("channel") != Channel:
		refuse(w, codeChannelNotFound, "")
		return
	case text == "" && blocks == "":
		refuse(w, codeNoText, "")
		return
	case chars(text) > maxFallback:
		refuse(w, codeMessageTooLong, "")
		return
	case code != "":
		refuse(w, code, why)
		return
	}
	if method == "chat.update" {
		for _, m := range s.messages {
			if m.TS == r.FormValue("ts") && m.Ephemeral == "" {
				m.Text, m.Blocks, m.Edits = text, blocks, m.Edits+1
				write(w, map[string]any{"ok": true, "channel": Channel, "ts": m.TS, "text": text})
				return
			}
		}
		refuse(w, codeMessageNotFound, "")
		return
	}
	s.last++
	m := &Message{TS: fmt.Sprintf("%d.%06d", time.Now().Unix(), s.last), ThreadTS: r.FormValue("thread_ts"), Text: text, Blocks: blocks,
		Broadcast: r.FormValue("reply_broadcast") == "true"}
	if method == "chat.postEphemeral" {
		m.Ephemeral = r.FormValue("user")
	}
	s.messages = append(s.messages, m)
	write(w, map[string]any{"ok": true, "channel": Channel, "ts": m.TS, "message_ts": m.TS})
}

// update shows another content in a modal.
func (s *Server) update(w http.ResponseWriter, body map[string]any) {
	v, _ := body["view"].(map[string]any)
	raw, err := json.Marshal(v)
	for _, opened := range s.views {
		if err == nil && v != nil && opened.ID == body["view_id"] {
			opened.Raw = raw
			v["id"] = opened.ID
			write(w, map[string]any{"ok": true, "view": v})
			return
		}
	}
	refuse(w, "not_found", "")
}

// view opens a modal.
func (s *Server) view(w http.ResponseWriter, body map[string]any) {
	trigger, _ := body["trigger_id"].(string)
	v, _ := body["view"].(map[string]any)
	if v == nil || trigger == "" {
		refuse(w, codeInvalidArguments, "")
		return
	}
	raw, err := json.Marshal(v)
	if err != nil {
		refuse(w, codeInvalidArguments, err.Error())
		return
	}
	s.last++
	metadata, _ := v["private_metadata"].(string)
	opened := &View{ID: fmt.Sprintf("V%08d", s.last), Trigger: trigger, Metadata: metadata, Raw: raw}
	s.views = append(s.views, opened)
	v["id"] = opened.ID
	write(w, map[string]any{"ok": true, "view": v})
}
