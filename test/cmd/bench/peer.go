package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// patched is the value that the patching peer writes: as long as a trace of one
// hop and the updaters.
const patched = `[{"apiVersion":"patch.bench.example.org/v1","kind":"Thing","name":"thing","generation":1234,"user":"system:admin","timestamp":"2026-01-01T00:00:00Z"}]`

// peer serves a webhook to compare ours with, on the same stack.
func peer(ctx context.Context, kind, address, certs string) error {
	handler := ctrl.HandlerFunc(func(_ context.Context, r ctrl.Request) ctrl.Response {
		resp := ctrl.Allowed("")
		if kind == "patch" {
			// A new value each time, or the API server would have nothing to do.
			resp.Patches = []jsonpatch.Operation{jsonpatch.NewOperation("add", "/metadata/annotations/bench.example.org~1trace", fmt.Sprint(patched, r.UID))}
		}
		return resp
	})
	mux := http.NewServeMux()
	mux.Handle("/mutate", &ctrl.Webhook{Handler: handler})
	srv := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { <-ctx.Done(); _ = srv.Close() }()
	if err := srv.ListenAndServeTLS(filepath.Join(certs, "tls.crt"), filepath.Join(certs, "tls.key")); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
