package slackfake

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Sign signs a body as Slack does at a time. It returns the values of the headers X-Slack-Request-Timestamp and X-Slack-Signature.
func Sign(secret, body string, at time.Time) (timestamp, signature string) {
	timestamp = strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(mac, "v0:"+timestamp+":"+body)
	return timestamp, "v0=" + hex.EncodeToString(mac.Sum(nil))
}

// Signed returns the request of an interaction, as Slack sends it to a URL.
func Signed(ctx context.Context, to, secret, body string, at time.Time) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("cannot create a request: %w", err)
	}
	timestamp, signature := Sign(secret, body, at)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("X-Slack-Request-Timestamp", timestamp)
	req.Header.Set("X-Slack-Signature", signature)
	return req, nil
}

// Form returns the form of a payload.
func Form(payload any) (string, error) {
	raw, err := json.Marshal(payload)
	if err != nil {
		return "", fmt.Errorf("cannot encode a payload: %w", err)
	}
	return url.Values{"payload": {string(raw)}}.Encode(), nil
}

// request sends a payload by HTTP, and returns how it was acknowledged.
func (s *Server) request(payload map[string]any) (json.RawMessage, error) {
	body, err := Form(payload)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), ackTimeout)
	defer cancel()
	req, err := Signed(ctx, s.Requests, SigningSecret, body, time.Now())
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, errors.Join(errNoAck, err)
	}
	defer resp.Body.Close() //nolint:errcheck // It was read.
	raw, err := io.ReadAll(resp.Body)
	if err != nil || len(raw) == 0 && resp.StatusCode == http.StatusOK {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", resp.Status, raw)
	}
	return raw, nil
}
