package providerhttp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// cloud of notes: POST /notes creates one, and /notes/ID is it; POST /pings stores nothing.
type cloud struct {
	*httptest.Server

	mu    sync.Mutex
	notes map[string]map[string]any
	// writes are the requests other than GET, as METHOD PATH TEXT, in order.
	writes []string
	next   int
}

func startCloud(t *testing.T) *cloud {
	t.Helper()
	c := &cloud{notes: map[string]map[string]any{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /notes", c.create)
	mux.HandleFunc("GET /notes/{id}", c.change(func(map[string]any, *http.Request) error { return nil }))
	mux.HandleFunc("PUT /notes/{id}", c.change(func(note map[string]any, r *http.Request) error {
		return json.NewDecoder(r.Body).Decode(&note)
	}))
	mux.HandleFunc("DELETE /notes/{id}", c.change(func(_ map[string]any, r *http.Request) error {
		delete(c.notes, r.PathValue("id"))
		return nil
	}))
	mux.HandleFunc("POST /pings", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"pong": true}`) })
	c.Server = httptest.NewServer(c.log(mux))
	t.Cleanup(c.Close)
	return c
}

// log the writes before they are answered.
func (c *cloud) log(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(raw)))
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.Method != http.MethodGet {
			var note struct{ Text string }
			if err := json.Unmarshal(raw, &note); err != nil && len(raw) > 0 {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			c.writes = append(c.writes, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+note.Text))
		}
		next.ServeHTTP(w, r)
	})
}

func (c *cloud) create(w http.ResponseWriter, r *http.Request) {
	note := map[string]any{}
	if err := json.NewDecoder(r.Body).Decode(&note); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.next++
	note["id"] = fmt.Sprint(c.next)
	c.notes[fmt.Sprint(c.next)] = note
	reply(w, note)
}

func (c *cloud) change(f func(note map[string]any, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		note := c.notes[r.PathValue("id")]
		if note == nil {
			http.NotFound(w, r)
			return
		}
		if err := f(note, r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		reply(w, note)
	}
}

func reply(w http.ResponseWriter, note map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(note) //nolint:errchkjson // The client reads no reply twice.
}

// texts of the notes, sorted.
func (c *cloud) texts() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := []string{}
	for _, n := range c.notes {
		out = append(out, fmt.Sprint(n["text"]))
	}
	slices.Sort(out)
	return out
}

// wrote since the n-th write.
func (c *cloud) wrote(n int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.writes[n:])
}

// edit the note with a text, as a user of the cloud's own console.
func (c *cloud) edit(from, to string) (ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.notes {
		if n["text"] == from {
			n["text"], ok = to, true
		}
	}
	return ok
}
