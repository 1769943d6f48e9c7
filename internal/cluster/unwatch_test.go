package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/internal/await"
)

// listing serves a list of n objects of any resource, and watches without events.
func listing(t *testing.T, n int) dynamic.Interface {
	t.Helper()
	items := make([]any, 0, n)
	for i := range n {
		items = append(items, map[string]any{"apiVersion": shopDB.GroupVersion().String(), "kind": shopDB.Kind,
			"metadata": map[string]any{"name": fmt.Sprintf("db-%d", i), "uid": fmt.Sprintf("uid-%d", i), "resourceVersion": "7"}})
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any = map[string]any{"apiVersion": shopDB.GroupVersion().String(), "kind": "DbList",
			"metadata": map[string]any{"resourceVersion": "7"}, "items": items}
		switch q := r.URL.Query(); {
		case q.Get("sendInitialEvents") != "": // as an API server without it
			w.WriteHeader(http.StatusUnprocessableEntity)
			answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
				Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity}
		case q.Get("watch") != "":
			w.(http.Flusher).Flush() //nolint:forcetypeassert // net/http's own is one.
			<-r.Context().Done()
			return
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Log(err)
		}
	}))
	t.Cleanup(s.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestMemoryGivenBack: of a kind that is not guarded any more nothing is kept, nor of
// its watch; and it is all there again when the kind is guarded again.
func TestMemoryGivenBack(t *testing.T) {
	const objects = 200
	c := covered(t)
	c.States.client = listing(t, objects)
	var unwatched atomic.Int64
	c.States.OnUnwatch(func(*Object) { unwatched.Add(1) })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.States.Run(ctx) }()
	defer func() { stop(); <-done }()
	c.configured(true, "shop.example.org/dbs")
	full := func() bool { return len(c.States.List(shopDB)) == objects }
	await.Poll(t, "the objects to be known", full)
	w := weak.Make(c.States.of(shopDB))
	kept := make([]weak.Pointer[Object], 0, objects)
	for _, o := range c.States.List(shopDB) {
		kept = append(kept, weak.Make(o))
	}
	c.configured(true, "other.example.org/caches")
	await.Poll(t, "the memory to be released", func() bool {
		runtime.GC()
		for _, k := range kept {
			if k.Value() != nil {
				return false
			}
		}
		return w.Value() == nil
	})
	await.Poll(t, "all to be unwatched", func() bool { return unwatched.Load() == objects })
	c.configured(true, "shop.example.org/dbs")
	await.Poll(t, "the objects to be known again", full)
}

// An object that does not exist was deleted only where its deletion was seen, or its
// Namespace is being deleted (KR-13-03).
func TestDeleted(t *testing.T) {
	s := covered(t).States
	s.terminating = func(namespace string) bool { return namespace == "ending" }
	of := func(uid types.UID, namespace string) parent.Ref {
		return parent.Ref{GroupVersionKind: shopDB, Namespace: namespace, Name: "db", UID: uid}
	}
	otherKind, otherVersion := of("gone", "live"), of("gone", "live")
	otherKind.Kind, otherVersion.Version = "App", "v2"
	deleting := &Object{State: &parent.State{Ref: of("deleting", "live"), DeletedAt: new(time.Now())}}
	gone := &Object{State: &parent.State{Ref: of("gone", "live")}}
	s.call(gone, deleting)
	s.call(gone, nil)
	for ref, want := range map[parent.Ref]bool{
		of("deleting", "live"): true, of("gone", "live"): true, of("never", "ending"): true, of("never", "live"): false, of("", "live"): false,
		of("gone", "other"): false, otherKind: false, otherVersion: true,
	} {
		if err := s.notFound(ref); !errors.Is(err, admission.ErrNotFound) || errors.Is(err, admission.ErrDeleted) != want {
			t.Errorf("%s in %s: want deleted: %t, got %v", ref.UID, ref.Namespace, want, err)
		}
	}
}
