package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	ctrl "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// patched is the value that the patching peer writes: as long as a trace of one
// hop and the updaters.
const patched = `[{"apiVersion":"patch.bench.example.org/v1","kind":"Thing","name":"thing","generation":1234,"user":"system:admin",` +
	`"timestamp":"2026-01-01T00:00:00Z"}]`

// changed reads both objects of a review and reports whether their specs differ:
// the least that a webhook does that decides about changes.
func changed(r ctrl.Request) bool {
	var was, is unstructured.Unstructured
	if json.Unmarshal(r.OldObject.Raw, &was.Object) != nil || json.Unmarshal(r.Object.Raw, &is.Object) != nil {
		return true // a CREATE
	}
	return !equality.Semantic.DeepEqual(was.Object["spec"], is.Object["spec"])
}

// peer serves a webhook to compare ours with: by what most are made with, and over
// HTTP/1.1, which the API server speaks to a Service; "http2" over what it speaks to
// a URL.
func peer(ctx context.Context, kind, address, certs string) error {
	handler := ctrl.HandlerFunc(func(_ context.Context, r ctrl.Request) ctrl.Response {
		resp := ctrl.Allowed("")
		if kind == "reads" && !changed(r) {
			return resp
		}
		if kind != "noop" {
			// A new value each time, or the API server would have nothing to do.
			resp.Patches = []jsonpatch.Operation{jsonpatch.NewOperation("add", "/metadata/annotations/bench.example.org~1trace", fmt.Sprint(patched, r.UID))}
		}
		return resp
	})
	mux := http.NewServeMux()
	mux.Handle("/mutate", &ctrl.Webhook{Handler: handler})
	protocols := &http.Protocols{}
	protocols.SetHTTP1(kind != "http2")
	protocols.SetHTTP2(kind == "http2")
	srv := &http.Server{Addr: address, Handler: mux, Protocols: protocols, ReadHeaderTimeout: 5 * time.Second}
	go func() { <-ctx.Done(); _ = srv.Close() }()
	if err := srv.ListenAndServeTLS(filepath.Join(certs, "tls.crt"), filepath.Join(certs, "tls.key")); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
