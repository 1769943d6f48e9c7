package cloud

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// maxRequest is how long a request's body may be, in bytes.
const maxRequest = 1 << 20

// statusClientClosed is what the log shows for a client that gave up waiting.
const statusClientClosed = 499

// A call is one request to the resources of a kind.
type call struct {
	store    *store
	name     string
	body     []byte
	settings Settings
	now      time.Time
}

// A method answers a call. The lock is held.
type method func(s *Server, c call) (code int, body []byte, err *Error)

// serve requests with a method: wait, answer under the lock, write to the log.
func (s *Server) serve(st *store, m method) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		arrived, latency := s.now(), time.Duration(s.settings.Latency)
		s.mu.Unlock()

		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		gone := !wait(r, latency)

		s.mu.Lock()
		s.settle()
		var code int
		var out []byte
		var refusal *Error
		switch {
		case gone:
			refusal = refuse(statusClientClosed, "the client is gone")
		case err != nil:
			refusal = refuse(http.StatusBadRequest, "cannot read request: %s", err)
		default:
			code, out, refusal = m(s, call{store: st, name: r.PathValue("name"), body: body, settings: s.settings, now: s.now()})
		}
		if refusal != nil {
			code = refusal.Code
		}
		s.log.add(Entry{Time: arrived, Kind: EntryRequest, Method: r.Method, Path: r.URL.Path, Body: loggable(body), Code: code, Client: r.UserAgent()})
		s.mu.Unlock()

		if refusal != nil {
			respondError(w, refusal)
			return
		}
		respond(w, code, out)
	}
}

// wait for the duration. False means the client gave up first.
func wait(r *http.Request, d time.Duration) bool {
	if d == 0 {
		return r.Context().Err() == nil
	}
	select {
	case <-time.After(d):
		return true
	case <-r.Context().Done():
		return false
	}
}

func list(_ *Server, c call) (int, []byte, *Error) {
	items := make([]json.RawMessage, 0, len(c.store.items))
	for _, name := range c.store.names() {
		b, err := c.store.items[name].encode()
		if err != nil {
			return 0, nil, refuse(http.StatusInternalServerError, "%s", err)
		}
		items = append(items, b)
	}
	b, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		return 0, nil, refuse(http.StatusInternalServerError, "cannot encode list: %s", err)
	}
	return http.StatusOK, b, nil
}

func read(_ *Server, c call) (int, []byte, *Error) {
	i, refusal := c.store.get(c.name)
	return encoded(http.StatusOK, i, refusal)
}

// write makes a method fail as the settings want.
func write(m method) method {
	return func(s *Server, c call) (int, []byte, *Error) {
		if s.settings.FailWrites == 0 {
			return m(s, c)
		}
		if s.settings.FailWrites > 0 {
			s.settings.FailWrites--
		}
		code := s.settings.FailCode
		if code == 0 {
			code = http.StatusInternalServerError
		}
		return 0, nil, refuse(code, "the cloud is set to fail")
	}
}

func put(_ *Server, c call) (int, []byte, *Error) {
	f, refusal := decode(c.body)
	if refusal != nil {
		return 0, nil, refusal
	}
	code, i, refusal := c.store.create(c.name, f, c.settings, c.now)
	return encoded(code, i, refusal)
}

func patch(_ *Server, c call) (int, []byte, *Error) {
	f, refusal := decode(c.body)
	if refusal != nil {
		return 0, nil, refusal
	}
	code, i, refusal := c.store.update(c.name, f, c.settings, c.now)
	return encoded(code, i, refusal)
}

func remove(_ *Server, c call) (int, []byte, *Error) {
	code, refusal := c.store.remove(c.name, c.settings, c.now)
	return code, nil, refusal
}

func encoded(code int, i *item, refusal *Error) (int, []byte, *Error) {
	if refusal != nil {
		return 0, nil, refusal
	}
	b, err := i.encode()
	if err != nil {
		return 0, nil, refuse(http.StatusInternalServerError, "%s", err)
	}
	return code, b, nil
}

// decode the fields of a body.
func decode(body []byte) (fields, *Error) {
	f := fields{}
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(&f); err != nil {
		return nil, refuse(http.StatusBadRequest, "cannot decode body: %s", err)
	}
	if f == nil || dec.More() {
		return nil, refuse(http.StatusBadRequest, "cannot decode body: want one JSON object")
	}
	return f, nil
}
