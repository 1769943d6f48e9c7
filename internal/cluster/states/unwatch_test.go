package states

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/internal/await"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
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

var (
	shopDB    = schema.GroupVersionKind{Group: "shop.example.org", Version: "v1", Kind: "Db"}
	shopPlain = schema.GroupVersionKind{Group: "shop.example.org", Version: "v1", Kind: "Plain"}
)

// unwatched States of two kinds.
func unwatched(t *testing.T, client dynamic.Interface) *States {
	t.Helper()
	k, err := kinds.New(client, meta.NewDefaultRESTMapper(nil))
	require.NoError(t, err)
	for _, gvk := range []schema.GroupVersionKind{shopDB, shopPlain} {
		k.LearnCRD(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"group": gvk.Group, "scope": "Cluster",
			"names":    map[string]any{"kind": gvk.Kind, "plural": strings.ToLower(gvk.Kind) + "s"},
			"versions": []any{map[string]any{"name": gvk.Version, "served": true, "storage": true}}}}})
	}
	return New(client, k)
}

// unreached is a client of an API server that is not there.
func unreached(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	require.NoError(t, err)
	return client
}

// guarded watches the kind of databases.
func guarded(t *testing.T, s *States) *watched {
	t.Helper()
	w, err := s.guard(shopDB)
	require.NoError(t, err)
	return w
}

// TestMemoryGivenBack: of a kind that is not guarded any more nothing is kept, nor of
// its watch; and it is all there again when the kind is guarded again.
func TestMemoryGivenBack(t *testing.T) {
	const objects = 200
	s := unwatched(t, listing(t, objects))
	var gone atomic.Int64
	s.OnUnwatch(func(*Object) { gone.Add(1) })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	defer func() { stop(); <-done }()
	guarded(t, s)
	full := func() bool { return len(s.List(shopDB)) == objects }
	await.Poll(t, "the objects to be known", full)
	w := weak.Make(s.of(shopDB))
	kept := make([]weak.Pointer[Object], 0, objects)
	for _, o := range s.List(shopDB) {
		kept = append(kept, weak.Make(o))
	}
	s.Keep(func(kinds.Info, bool) bool { return false })
	await.Poll(t, "the memory to be released", func() bool {
		runtime.GC()
		for _, k := range kept {
			if k.Value() != nil {
				return false
			}
		}
		return w.Value() == nil
	})
	await.Poll(t, "all to be unwatched", func() bool { return gone.Load() == objects })
	guarded(t, s)
	await.Poll(t, "the objects to be known again", full)
}

// An object that does not exist was deleted only where its deletion was seen, or its
// Namespace is being deleted (KR-13-03).
func TestDeleted(t *testing.T) {
	s := unwatched(t, unreached(t))
	s.Terminating = func(namespace string) bool { return namespace == "ending" }
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

// What is unwatched can be watched again.
func TestUnwatch(t *testing.T) {
	s := unwatched(t, unreached(t))
	w := guarded(t, s)
	ctx, cancel := w.until(t.Context())
	defer cancel()
	s.end(shopDB, endGone)
	s.end(shopDB, endGone) // twice is harmless
	<-ctx.Done()
	if len(s.watched) != 0 || t.Context().Err() != nil {
		t.Errorf("watched: %v", s.watched)
	}
	if guarded(t, s) == w {
		t.Error("it is the watch that ended")
	}
}

// TestKeep: a watch that is kept stays the same one.
func TestKeep(t *testing.T) {
	s := unwatched(t, unreached(t))
	w := guarded(t, s)
	require.NoError(t, s.Watch(shopPlain))
	s.Keep(func(_ kinds.Info, requested bool) bool { return !requested })
	if again := guarded(t, s); again != w || s.of(shopPlain) != nil {
		t.Errorf("watched: %v", s.watched)
	}
}

// TestRefusedWatch: a kind that is watched for questions about it and that may not be
// watched is unwatched, and not tried again at once; one that is guarded is.
func TestRefusedWatch(t *testing.T) {
	s := unwatched(t, unreached(t))
	s.Needed, s.OnRefused = func(i kinds.Info) bool { return i.GVK == shopDB }, func(err error) { t.Log(err) }
	guarded(t, s)
	forbidden := kerrors.NewForbidden(schema.GroupResource{Group: "shop.example.org", Resource: "plains"}, "", nil)
	ask := func() *watched {
		t.Helper()
		if err := s.Watch(shopPlain); err != nil {
			t.Fatal(err)
		}
		return s.of(shopPlain)
	}
	first := ask()
	s.failed(first)(t.Context(), nil, forbidden)
	if got := s.Kinds(); len(got) != 1 || got[0] != shopDB {
		t.Errorf("watched are %s", got)
	}
	if ask() != nil {
		t.Error("it was tried again at once")
	}
	s.Keep(func(kinds.Info, bool) bool { return true }) // what is guarded has changed
	second := ask()
	if second == nil {
		t.Fatal("it is not tried again when access may have changed")
	}
	s.failed(first)(t.Context(), nil, forbidden)
	if s.of(shopPlain) != second {
		t.Error("a watch that is over ended another one")
	}
	if db := s.of(shopDB); db == nil || !s.Needed(db.info) {
		t.Error("what is guarded must be tried for again")
	}
	s.refuse(second)
	one := s.refused[shopPlain].wait
	s.watched[shopPlain] = second
	second.over = make(chan struct{})
	s.refuse(second)
	if two := s.refused[shopPlain].wait; one != refusedFirst || two != 2*refusedFirst {
		t.Errorf("it waits %s, then %s", one, two)
	}
}

// TestEnded: those that use an object are called when it is unwatched, unless it is
// again; that it is gone is reported with its kind alone.
func TestEnded(t *testing.T) {
	for why, want := range map[ending]string{endChanged: "", endGone: "gone", endUnneeded: "unwatched"} {
		s := unwatched(t, unreached(t))
		var calls []string
		s.OnChange(func(_, new *Object) {
			if new == nil {
				calls = append(calls, "gone")
			}
		})
		s.OnUnwatch(func(*Object) { calls = append(calls, "unwatched") })
		w := guarded(t, s)
		require.NoError(t, w.informer.GetStore().Add(&Object{State: &parent.State{Ref: parent.Ref{GroupVersionKind: shopDB, Name: "one", UID: "1"}}}))
		s.end(shopDB, why)
		s.ended(w)
		if got := strings.Join(calls, ", "); got != want {
			t.Errorf("%d: reported %q, want %q", why, got, want)
		}
		calls = nil
		if guarded(t, s); why == endUnneeded {
			if s.ended(w); len(calls) > 0 {
				t.Errorf("it is watched again, and reported %v", calls)
			}
		}
	}
}
