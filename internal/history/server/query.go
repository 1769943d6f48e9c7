package server

import (
	"encoding/json"
	"net/http"

	"github.com/kausality-io/function-kausality/internal/history/query"
)

// maxReads bounds the pages of the store that are read for one answer. Most records of a store may be of
// objects that the user may not see.
const maxReads = 10

// query of records: those that the user sees. The next cursor is where the server stopped to
// read, so that a page with few records, or none, may have one (KR-16-36).
func (s *Server) query(_ http.ResponseWriter, r *http.Request) (any, error) {
	u, err := s.access.user(r)
	if err != nil {
		return nil, err
	}
	request, err := query.Parse(r.URL.Query())
	if err != nil {
		return nil, mistake(http.StatusBadRequest, reasonBadRequest, err.Error())
	}
	sight, page := s.access.sight(u), query.Page{Records: []json.RawMessage{}}
	limit := request.Limit
	request.Limit = limit + 1
	for range maxReads {
		found, err := s.store.Page(r.Context(), request)
		if err != nil {
			return nil, err
		}
		for i := range found {
			if len(page.Records) == limit {
				page.Next = request.Cursor
				return page, nil
			}
			request.Cursor = found[i].Encode()
			ok, err := sight.sees(r.Context(), &found[i].Record)
			if err != nil {
				return nil, err
			}
			if ok {
				page.Records = append(page.Records, found[i].Raw)
			}
		}
		if len(found) < request.Limit {
			return page, nil
		}
	}
	page.Next = request.Cursor
	return page, nil
}

// graph of a record: those of its records that the user sees. A record that does not exist, and
// one that the user does not see, have the same answer (KR-16-40).
func (s *Server) graph(_ http.ResponseWriter, r *http.Request) (any, error) {
	u, err := s.access.user(r)
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	found, truncated, err := s.store.Graph(r.Context(), id)
	if err != nil {
		return nil, err
	}
	sight, graph, seen := s.access.sight(u), query.Graph{Records: []json.RawMessage{}, Truncated: truncated}, false
	for i := range found {
		ok, err := sight.sees(r.Context(), &found[i].Record)
		if err != nil {
			return nil, err
		}
		if ok {
			graph.Records = append(graph.Records, found[i].Raw)
			seen = seen || found[i].Record.ID == id
		}
	}
	if !seen {
		return nil, mistake(http.StatusNotFound, reasonNotFound, "no record of that id is visible")
	}
	return graph, nil
}
