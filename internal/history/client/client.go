package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/kausality-io/function-kausality/internal/history/query"
)

// maxAnswer bounds an answer, in bytes: a page of 1000 records of 2 KiB, and some.
const maxAnswer = 16 << 20

// ErrUnauthorized is matched by the error of a request whose user the server does not know.
var ErrUnauthorized = errors.New("the history does not know the user")

// Client of a server.
type Client struct {
	// Base is the URL of the server, without /v1.
	Base *url.URL
	HTTP *http.Client
}

// Page returns the page of records. now is the time of the server, or the zero time.
func (c *Client) Page(ctx context.Context, r query.Request) (page query.Page, now time.Time, err error) {
	now, err = c.get(ctx, "records", r.Values(), &page)
	return page, now, err
}

// Graph returns the graph of the records that led to one, and followed from it.
func (c *Client) Graph(ctx context.Context, id string) (g query.Graph, err error) {
	_, err = c.get(ctx, "graph/"+url.PathEscape(id), nil, &g)
	return g, err
}

// get gets an answer.
func (c *Client) get(ctx context.Context, path string, values url.Values, to any) (now time.Time, err error) {
	u := c.Base.JoinPath("v1", path)
	u.RawQuery = values.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return now, err
	}
	w, err := c.HTTP.Do(r)
	if err != nil {
		return now, fmt.Errorf("cannot read the history: %w", err)
	}
	defer func() { err = errors.Join(err, w.Body.Close()) }()
	body, err := io.ReadAll(io.LimitReader(w.Body, maxAnswer))
	if err != nil {
		return now, fmt.Errorf("cannot read the history: %w", err)
	}
	if now, err = http.ParseTime(w.Header.Get("Date")); err != nil {
		now = time.Time{} // it is optional
	}
	if w.StatusCode != http.StatusOK {
		return now, problem(w.StatusCode, body)
	}
	if err := json.Unmarshal(body, to); err != nil {
		return now, fmt.Errorf("cannot read the history: what answers at %s is none: %w", c.Base.Redacted(), err)
	}
	return now, nil
}

// problem returns the error that a server, or the API server in front of it, reports.
func problem(code int, body []byte) error {
	p := query.Problem{}
	if json.Unmarshal(body, &p) != nil || p.Message == "" {
		p.Message = http.StatusText(code)
	}
	if code == http.StatusUnauthorized {
		return fmt.Errorf("%w: %s", ErrUnauthorized, p.Message)
	}
	return fmt.Errorf("cannot read the history: %s (%d)", p.Message, code)
}
