package cloud

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// A Server is the cloud. It is safe for concurrent use.
type Server struct {
	mux  *http.ServeMux
	base func() time.Time

	mu       sync.Mutex // guards all below; one lock, so that the log has the order of the effects
	offset   time.Duration
	settings Settings
	stores   map[string]*store
	log      *ring
}

// An Option of a Server.
type Option func(*Server)

// WithLogSize sets how many entries the log keeps, instead of DefaultLogSize.
func WithLogSize(n int) Option {
	return func(s *Server) { s.log = newRing(n) }
}

// WithTime sets the time that the clock starts from, instead of time.Now.
func WithTime(now func() time.Time) Option {
	return func(s *Server) { s.base = now }
}

// NewServer returns a cloud without resources.
func NewServer(o ...Option) *Server {
	s := &Server{
		mux:    http.NewServeMux(),
		base:   time.Now,
		stores: map[string]*store{},
		log:    newRing(DefaultLogSize),
	}
	for _, fn := range o {
		fn(s)
	}
	for _, k := range kinds() {
		st := newStore(k)
		s.stores[k.collection] = st
		s.mux.HandleFunc("GET /"+k.collection, s.serve(st, list))
		s.mux.HandleFunc("GET /"+k.collection+"/{name}", s.serve(st, read))
		s.mux.HandleFunc("PUT /"+k.collection+"/{name}", s.serve(st, write(put)))
		s.mux.HandleFunc("PATCH /"+k.collection+"/{name}", s.serve(st, write(patch)))
		s.mux.HandleFunc("DELETE /"+k.collection+"/{name}", s.serve(st, write(remove)))
	}
	s.control()
	return s
}

// ServeHTTP serves a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// now by the cloud's clock. The lock must be held.
func (s *Server) now() time.Time { return s.base().Add(s.offset).UTC() }

// settle finishes what is due. The lock must be held.
func (s *Server) settle() {
	now := s.now()
	for _, st := range s.stores {
		st.settle(now)
	}
}

// respond with a JSON document, or without any.
func respond(w http.ResponseWriter, code int, body []byte) {
	if body != nil {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(code)
	_, _ = w.Write(body) // An error means that the client is gone.
}

func respondJSON(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		respondError(w, refuse(http.StatusInternalServerError, "cannot encode response: %s", err))
		return
	}
	respond(w, http.StatusOK, b)
}

func respondError(w http.ResponseWriter, e *Error) {
	b, _ := json.Marshal(e) // A struct of one string always encodes.
	respond(w, e.Code, b)
}
