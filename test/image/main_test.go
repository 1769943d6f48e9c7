package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestRunRefuses(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"Nothing":     {nil, "usage"},
		"Unknown":     {[]string{"push"}, "usage"},
		"UnknownFlag": {[]string{"build", "--colour"}, "colour"},
		"NoFile":      {[]string{"inspect"}, "name the image"},
		"MissingFile": {[]string{"inspect", "/does/not/exist"}, "/does/not/exist"},
		"NoImages":    {[]string{"layout", "--output", "x"}, "name the image tarballs"},
		"NoFiles":     {[]string{"archive", "--output", "x"}, "name the files"},
		"NoURL":       {[]string{"krew", "--output", "x"}, "--url"},
		"NoArchives":  {[]string{"krew", "--output", "x", "--url", "y"}, "name the archives"},
		"NoDirectory": {[]string{"checksums"}, "name the directory"},
		"NoRelease":   {[]string{"checksums", "--version", "596c5dc", "."}, "set VERSION"},
		"BadAddress":  {[]string{"registry", "--address", "256.0.0.1:0"}, "cannot listen"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := run(t.Context(), tc.args, io.Discard, io.Discard)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("run(%q): want an error with %q, got %v", tc.args, tc.want, err)
			}
		})
	}
}

func TestRegistry(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- run(ctx, []string{"registry", "--address", "127.0.0.1:0"}, w, io.Discard) }()
	buf := make([]byte, 100)
	n, err := r.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	address := string(bytes.TrimSpace(bytes.TrimPrefix(buf[:n], []byte("listening on "))))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v2/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("GET /v2/: want 200, got %s", resp.Status)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("registry: want a clean end, got %v", err)
	}
}
