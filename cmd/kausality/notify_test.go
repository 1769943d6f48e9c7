package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A DriftReport is printed as one line of JSON; anything else is refused and not
// printed (KR-10-07).
func TestPrintReports(t *testing.T) {
	cases := map[string]struct {
		body string
		code int
		// line is part of what is printed; empty for nothing.
		line string
	}{
		"Report":    {body: "{\"kind\": \"DriftReport\",\n\"spec\": {\"id\": \"1f2e3d4c5b6a7980\"}}", code: http.StatusOK, line: `"id":"1f2e3d4c5b6a7980"`},
		"OtherKind": {body: `{"kind": "Drift"}`, code: http.StatusBadRequest},
		"NoJSON":    {body: "drift", code: http.StatusBadRequest},
		"Empty":     {code: http.StatusBadRequest},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, in := io.Pipe()
			printed := make(chan string, 1)
			go func() {
				buffer := make([]byte, 1<<16)
				n, _ := out.Read(buffer)
				printed <- string(buffer[:n])
			}()
			response := httptest.NewRecorder()
			printReports(in).ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(tc.body)))
			if response.Code != tc.code {
				t.Errorf("code %d, want %d: %s", response.Code, tc.code, response.Body)
			}
			if tc.line == "" {
				_ = in.Close() // ends the read: nothing is printed
			}
			got := <-printed
			if tc.line == "" && got != "" || !strings.Contains(got, tc.line) || strings.Count(got, "\n") != min(len(tc.line), 1) {
				t.Errorf("printed %q, want one line with %q", got, tc.line)
			}
		})
	}
}
