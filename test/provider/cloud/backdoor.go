package cloud

import (
	"encoding/json"
	"io"
	"net/http"
)

// backdoor changes a resource without a client's request. The log has an entry
// for it, but not as a write.
func (s *Server) backdoor(do func(*store, string, fields) *Error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			respondError(w, refuse(http.StatusBadRequest, "cannot read request: %s", err))
			return
		}
		f, refusal := decode(body)
		if refusal != nil {
			respondError(w, refusal)
			return
		}
		collection, name := take(f, "collection"), take(f, "name")
		if collection == "" {
			collection = Databases
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.settle()
		if st, ok := s.stores[collection]; ok {
			refusal = do(st, name, f)
		} else {
			refusal = refuse(http.StatusNotFound, "there is no collection %q", collection)
		}
		code := http.StatusNoContent
		if refusal != nil {
			code = refusal.Code
		}
		s.log.add(Entry{Time: s.now(), Kind: EntryBackdoor, Method: r.Method, Path: r.URL.Path, Body: loggable(body), Code: code, Client: r.UserAgent()})
		if refusal != nil {
			respondError(w, refusal)
			return
		}
		respond(w, code, nil)
	}
}

// take a string out of the fields; empty if it is absent or no string.
func take(f fields, key string) string {
	v := ""
	if json.Unmarshal(f[key], &v) != nil {
		return ""
	}
	delete(f, key)
	return v
}
