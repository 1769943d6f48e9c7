package main

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
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

// TestNotifyTest: each receiver gets one report that is marked and valid by the schema, and its answer is printed.
func TestNotifyTest(t *testing.T) {
	var got []v1alpha1.DriftReport
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		report := v1alpha1.DriftReport{}
		if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
			t.Error(err)
		}
		got = append(got, report)
		if r.URL.Path == "/refuses" {
			http.Error(w, "no such channel", http.StatusNotFound)
		}
	}))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd := notifyCommand()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"test", "--cluster-name=prod", "--drift-webhook-ca-file=" + ca, "--drift-webhook-url=" + server.URL + "/accepts",
		"--drift-webhook-url=" + server.URL + "/refuses", "--drift-webhook-url=https://127.0.0.1:1/away"})
	err := cmd.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "2 of 3 receivers did not accept the report") {
		t.Errorf("error %v", err)
	}
	if len(got) != 2 || !got[0].Spec.Test || got[0].Spec.Cluster != "prod" || got[0].Spec.ReportID == "" {
		t.Errorf("got %+v", got)
	}
	for _, want := range []string{" accepted it: 200 OK\n", ` did not accept it: 404 Not Found, "no such channel\n"`, " did not get it: dial tcp 127.0.0.1:1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("printed %q, want %q", out.String(), want)
		}
	}
}

// TestNotifySchema prints the schema of the documents.
func TestNotifySchema(t *testing.T) {
	var out strings.Builder
	cmd := notifyCommand()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"schema"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	schema := struct{ Title string }{}
	if err := json.Unmarshal([]byte(out.String()), &schema); err != nil || schema.Title != "DriftReport" {
		t.Errorf("printed %s: %v", out.String(), err)
	}
}
