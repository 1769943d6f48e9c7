package client

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/test/provider/cloud"
)

// Fields of a resource by their JSON names.
type Fields map[string]any

// Get a database. The error may be an IsNotFound. The request is logged, as a
// read of this client.
func (c *Client) Get(ctx context.Context, name string) (cloud.Database, error) {
	return c.Databases().Get(ctx, name)
}

// Log returns the entries after a sequence number (0: all). It is an error if
// the log no longer has some of them.
func (c *Client) Log(ctx context.Context, since int64) ([]cloud.Entry, error) {
	return c.log(ctx, fmt.Sprintf("/_log?since=%d", since))
}

// Writes returns the entries of the log that are writes: what clients wanted to
// change, including what failed (see Entry.Succeeded), and not what happened
// through Lose and Change.
func (c *Client) Writes(ctx context.Context, since int64) ([]cloud.Entry, error) {
	return c.log(ctx, fmt.Sprintf("/_log?since=%d&writes=1", since))
}

// Reads of the resource with a name after a sequence number: how often clients
// observed it.
func (c *Client) Reads(ctx context.Context, since int64, name string) (n int, err error) {
	entries, err := c.Log(ctx, since)
	for _, e := range entries {
		if e.Method == http.MethodGet && strings.HasSuffix(e.Path, "/"+name) {
			n++
		}
	}
	return n, err
}

func (c *Client) log(ctx context.Context, path string) ([]cloud.Entry, error) {
	out := cloud.Entries{}
	if _, err := c.do(ctx, http.MethodGet, path, nil, &out); err != nil {
		return nil, err
	}
	if out.Dropped > 0 {
		return nil, fmt.Errorf("cannot return the log: %d of the entries are gone", out.Dropped)
	}
	return out.Entries, nil
}

// LastSeq is the sequence number of the newest entry, to be given to Log and
// Writes later.
func (c *Client) LastSeq(ctx context.Context) (int64, error) {
	out := cloud.Entries{}
	_, err := c.do(ctx, http.MethodGet, "/_log?since=9223372036854775806", nil, &out)
	return out.Last, err
}

// Settings of the cloud.
func (c *Client) Settings(ctx context.Context) (cloud.Settings, error) {
	out := cloud.Settings{}
	_, err := c.do(ctx, http.MethodGet, "/_control", nil, &out)
	return out, err
}

// Reset the settings to the defaults. Resources, log and clock stay.
func (c *Client) Reset(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodDelete, "/_control", nil, nil)
	return err
}

func (c *Client) set(ctx context.Context, f Fields) error {
	_, err := c.do(ctx, http.MethodPost, "/_control", f, nil)
	return err
}

// SetLatency of every request to a resource, in real time.
func (c *Client) SetLatency(ctx context.Context, d time.Duration) error {
	return c.set(ctx, Fields{"latency": cloud.Duration(d)})
}

// FailNext makes the next n writes fail with an HTTP status (0: 500) before
// they have any effect. A negative n fails all writes, 0 none.
func (c *Client) FailNext(ctx context.Context, n, code int) error {
	return c.set(ctx, Fields{"failWrites": n, "failCode": code})
}

// SetAsync switches asynchronous mode. Operations finish after d by the cloud's
// clock; if that is 0, only by Finish.
func (c *Client) SetAsync(ctx context.Context, on bool, d time.Duration) error {
	return c.set(ctx, Fields{"async": on, "asyncDuration": cloud.Duration(d)})
}

// SetIncompleteCreation leaves databases that are created from now on
// incomplete until they are updated.
func (c *Client) SetIncompleteCreation(ctx context.Context, on bool) error {
	return c.set(ctx, Fields{"incompleteCreation": on})
}

// SetDeleteDuration is how long deletion takes by the cloud's clock.
func (c *Client) SetDeleteDuration(ctx context.Context, d time.Duration) error {
	return c.set(ctx, Fields{"deleteDuration": cloud.Duration(d)})
}

// Finish the operation that is going on with a database; with an empty name all
// operations. A failure that is not empty makes them fail with this message.
// It returns how many there were.
func (c *Client) Finish(ctx context.Context, name, failure string) (int, error) {
	out := struct {
		Finished int `json:"finished"`
	}{}
	_, err := c.do(ctx, http.MethodPost, "/_control/finish", Fields{"name": name, "error": failure}, &out)
	return out.Finished, err
}

// Lose a database: it is gone, without a write in the log.
func (c *Client) Lose(ctx context.Context, name string) error {
	_, err := c.do(ctx, http.MethodPost, "/_control/lose", Fields{"name": name}, nil)
	return err
}

// Change a database without a request of a client: the log has no write of it.
func (c *Client) Change(ctx context.Context, name string, f Fields) error {
	in := maps.Clone(f)
	if in == nil {
		in = Fields{}
	}
	in["name"] = name
	_, err := c.do(ctx, http.MethodPost, "/_control/change", in, nil)
	return err
}

// Advance the cloud's clock and return its new time.
func (c *Client) Advance(ctx context.Context, d time.Duration) (time.Time, error) {
	out := cloud.Clock{}
	_, err := c.do(ctx, http.MethodPost, "/_clock", Fields{"advance": cloud.Duration(d)}, &out)
	return out.Now, err
}

// Now is the time by the cloud's clock.
func (c *Client) Now(ctx context.Context) (time.Time, error) {
	out := cloud.Clock{}
	_, err := c.do(ctx, http.MethodGet, "/_clock", nil, &out)
	return out.Now, err
}

// Healthy returns nil if the cloud answers.
func (c *Client) Healthy(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodGet, "/healthz", nil, nil)
	return err
}
