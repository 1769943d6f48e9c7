package cloud

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"
)

// control registers the routes by which tests control the cloud.
func (s *Server) control() {
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, []byte(`"ok"`)) })
	s.mux.HandleFunc("GET /_log", s.getLog)
	s.mux.HandleFunc("GET /_control", s.getSettings)
	s.mux.HandleFunc("POST /_control", s.setSettings)
	s.mux.HandleFunc("DELETE /_control", s.resetSettings)
	s.mux.HandleFunc("POST /_control/finish", s.finish)
	s.mux.HandleFunc("POST /_control/lose", s.backdoor(func(st *store, name string, _ fields) *Error { return st.lose(name) }))
	s.mux.HandleFunc("POST /_control/change", s.backdoor((*store).change))
	s.mux.HandleFunc("GET /_clock", s.getClock)
	s.mux.HandleFunc("POST /_clock", s.advance)
}

func (s *Server) getLog(w http.ResponseWriter, r *http.Request) {
	since := int64(0)
	if v := r.URL.Query().Get("since"); v != "" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			respondError(w, refuse(http.StatusBadRequest, "since must be a sequence number, not %q", v))
			return
		}
		since = n
	}
	keep := func(Entry) bool { return true }
	if r.URL.Query().Get("writes") == "1" {
		keep = Entry.IsWrite
	}
	s.mu.Lock()
	out := s.log.after(since, keep)
	s.mu.Unlock()
	respondJSON(w, out)
}

func (s *Server) getSettings(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	out := s.settings
	s.mu.Unlock()
	respondJSON(w, out)
}

// setSettings changes the settings given and leaves the others.
func (s *Server) setSettings(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.settings
	if refusal := decodeStrict(r, &next); refusal != nil {
		respondError(w, refusal)
		return
	}
	if err := next.validate(); err != nil {
		respondError(w, refuse(http.StatusUnprocessableEntity, "invalid settings: %s", err))
		return
	}
	s.settings = next
	respondJSON(w, next)
}

func (s *Server) resetSettings(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	s.settings = Settings{}
	s.mu.Unlock()
	respondJSON(w, Settings{})
}

// finish operations: that of one resource, or all.
func (s *Server) finish(w http.ResponseWriter, r *http.Request) {
	in := struct {
		Collection string `json:"collection"`
		Name       string `json:"name"`
		Error      string `json:"error"`
	}{Collection: Databases}
	if refusal := decodeStrict(r, &in); refusal != nil {
		respondError(w, refusal)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	st, ok := s.stores[in.Collection]
	if !ok {
		respondError(w, refuse(http.StatusNotFound, "there is no collection %q", in.Collection))
		return
	}
	names := []string{in.Name}
	if in.Name == "" {
		names = st.names()
	}
	finished := 0
	for _, name := range names {
		if st.finish(name, in.Error) {
			finished++
		}
	}
	respondJSON(w, map[string]int{"finished": finished})
}

func (s *Server) getClock(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	now := s.now()
	s.mu.Unlock()
	respondJSON(w, Clock{Now: now})
}

func (s *Server) advance(w http.ResponseWriter, r *http.Request) {
	in := struct {
		Advance Duration `json:"advance"`
	}{}
	if refusal := decodeStrict(r, &in); refusal != nil {
		respondError(w, refusal)
		return
	}
	if in.Advance < 0 {
		respondError(w, refuse(http.StatusUnprocessableEntity, "the clock only goes forward"))
		return
	}
	s.mu.Lock()
	s.offset += time.Duration(in.Advance)
	s.settle()
	now := s.now()
	s.mu.Unlock()
	respondJSON(w, Clock{Now: now})
}

// decodeStrict reads a control document. Unknown fields are refused: a typo in
// a test must not leave the cloud as it was.
func decodeStrict(r *http.Request, into any) *Error {
	b, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxRequest))
	if err != nil {
		return refuse(http.StatusBadRequest, "cannot read request: %s", err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return refuse(http.StatusBadRequest, "cannot decode body: %s", err)
	}
	return nil
}
