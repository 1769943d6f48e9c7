package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// A Client of one cloud.
type Client struct {
	base  string
	agent string
	http  *http.Client
}

// An Option of a Client.
type Option func(*Client)

// WithUserAgent sets the name under which the cloud logs requests, instead of
// "cloud-client".
func WithUserAgent(name string) Option {
	return func(c *Client) { c.agent = name }
}

// New returns a client of the cloud at the URL, such as http://127.0.0.1:9000.
func New(url string, o ...Option) *Client {
	c := &Client{base: strings.TrimSuffix(url, "/"), agent: "cloud-client", http: &http.Client{}}
	for _, fn := range o {
		fn(c)
	}
	return c
}

// An Error is a refusal by the cloud.
type Error struct {
	Code    int // HTTP status
	Message string
}

// Error is the message with its status.
func (e *Error) Error() string { return fmt.Sprintf("cloud: %s (%d)", e.Message, e.Code) }

// IsNotFound is true if the cloud answered that the resource does not exist.
func IsNotFound(err error) bool { return hasCode(err, http.StatusNotFound) }

// IsConflict is true if the resource exists already or is busy.
func IsConflict(err error) bool { return hasCode(err, http.StatusConflict) }

func hasCode(err error, code int) bool {
	e := &Error{}
	return errors.As(err, &e) && e.Code == code
}

// do a request and decode the response into out, unless that is nil. It
// returns the HTTP status of a success.
func (c *Client) do(ctx context.Context, method, path string, in, out any) (int, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return 0, fmt.Errorf("cannot encode request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return 0, fmt.Errorf("cannot build request: %w", err)
	}
	req.Header.Set("User-Agent", c.agent)
	rsp, err := c.http.Do(req)
	if err != nil {
		return 0, fmt.Errorf("cannot reach the cloud: %w", err)
	}
	defer rsp.Body.Close() //nolint:errcheck // Nothing was written.
	b, err := io.ReadAll(rsp.Body)
	if err != nil {
		return 0, fmt.Errorf("cannot read the cloud's response: %w", err)
	}
	if rsp.StatusCode >= http.StatusMultipleChoices {
		return 0, refusal(rsp.StatusCode, b)
	}
	if out == nil || len(b) == 0 {
		return rsp.StatusCode, nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return 0, fmt.Errorf("cannot decode the cloud's response: %w", err)
	}
	return rsp.StatusCode, nil
}

func refusal(code int, body []byte) error {
	e := struct {
		Error string `json:"error"`
	}{}
	if json.Unmarshal(body, &e) != nil || e.Error == "" {
		e.Error = strings.TrimSpace(string(body))
	}
	return &Error{Code: code, Message: e.Error}
}
