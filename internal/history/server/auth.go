package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	records "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TokenHeader has the token of a user, as Authorization has: the API server's proxy, which
// clients may connect through, keeps the latter for itself.
const TokenHeader = "X-Kausality-Authorization" //nolint:gosec // It is the name of a header.

// minToken is the length of a token in a file, in bytes.
const minToken = 16

// Tokens of senders: the name of each by the hash of its token. Reading the map takes a time that depends on
// the hash alone.
type Tokens map[[sha256.Size]byte]string

// ReadTokens of a directory, as a Secret is mounted: each file is the token of the sender of its name.
func ReadTokens(dir string) (Tokens, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read tokens: %w", err)
	}
	out := Tokens{}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), ".") {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, f.Name())) //nolint:gosec // The administrator names the directory.
		if err != nil {
			return nil, fmt.Errorf("cannot read the token of %s: %w", f.Name(), err)
		}
		token := strings.TrimSpace(string(raw))
		if len(token) < minToken {
			return nil, fmt.Errorf("the token of %s is shorter than %d bytes", f.Name(), minToken)
		}
		sum := sha256.Sum256([]byte(token))
		if other := out[sum]; other != "" {
			return nil, fmt.Errorf("%s and %s have the same token", other, f.Name())
		}
		out[sum] = f.Name()
	}
	return out, nil
}

// sender returns the sender of a request by its token; empty for none.
func (t Tokens) sender(r *http.Request) string {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return ""
	}
	sum := sha256.Sum256([]byte(token))
	for have, name := range t {
		if subtle.ConstantTimeCompare(have[:], sum[:]) == 1 {
			return name
		}
	}
	return ""
}

// errUnauthenticated is a request without the credentials of a user.
var errUnauthenticated = mistake(http.StatusUnauthorized, reasonUnauthorized, "give a token that the API server accepts, or the certificate of a client of it")

// Access decides who sends and sees records, by the API server.
type Access struct {
	// Tokens of senders that are no users; they see nothing.
	Tokens Tokens
	// Authenticator and Authorizer call the API server.
	Authenticator authenticator.Request
	Authorizer    authorizer.Authorizer
	// Mapper finds the resource of a kind.
	Mapper meta.RESTMapper
	// Cluster is the UID of the cluster of that API server. Of the objects of others it knows nothing.
	Cluster string
}

// user returns the user of a request. The error is errUnauthenticated, or that the API server could not decide.
func (a *Access) user(r *http.Request) (user.Info, error) {
	if t := r.Header.Get(TokenHeader); t != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", t)
	}
	got, ok, err := a.Authenticator.AuthenticateRequest(r)
	switch {
	case ok:
		return got.User, nil
	case unanswered(err):
		return nil, fmt.Errorf("cannot review a token: %w", err)
	}
	return nil, errUnauthenticated
}

// unanswered reports whether an error is that of a call to the API server, and not that of a token.
func unanswered(err error) bool {
	var list utilerrors.Aggregate
	if errors.As(err, &list) {
		return slices.ContainsFunc(list.Errors(), unanswered)
	}
	var status apierrors.APIStatus
	var call *url.Error
	return errors.As(err, &status) || errors.As(err, &call) || errors.Is(err, context.DeadlineExceeded)
}

// may a user do something with a resource.
func (a *Access) may(ctx context.Context, u user.Info, verb string, resource schema.GroupVersionResource, namespace, name string) (bool, error) {
	decision, _, err := a.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: u, Verb: verb, APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource,
		Namespace: namespace, Name: name, ResourceRequest: true,
	})
	if decision == authorizer.DecisionAllow {
		return true, nil
	}
	return false, err
}

// recordsOf all clusters, or of one by its name: what a user may be allowed, beside objects.
var recordsOf = v1alpha1.GroupVersion.WithResource("records")

// users is the name of all senders that are users of this cluster: webhook and gate are two, and send records of the same one.
const users = "users"

// sender returns the sender of a batch: the name of its token, else users where the user may create records (KR-16-40).
func (a *Access) sender(r *http.Request) (string, error) {
	if name := a.Tokens.sender(r); name != "" {
		return "token:" + name, nil
	}
	u, err := a.user(r)
	if err != nil {
		return "", err
	}
	ok, err := a.may(r.Context(), u, "create", recordsOf, "", "")
	if err == nil && !ok {
		err = errForbidden
	}
	return users, err
}

var errForbidden = mistake(http.StatusForbidden, reasonForbidden, "create records.kausality.io is not allowed")

// sight of a user: what the API server has answered during one request.
type sight struct {
	*Access
	user user.Info
	seen map[string]bool
}

// sight returns the sight of a user, without any answer yet.
func (a *Access) sight(u user.Info) *sight {
	return &sight{Access: a, user: u, seen: map[string]bool{}}
}

// allowed is may, once for each request.
func (s *sight) allowed(ctx context.Context, verb string, resource schema.GroupVersionResource, namespace, name string) (bool, error) {
	key := strings.Join([]string{verb, resource.Group, resource.Resource, namespace, name}, "\x00")
	if ok, have := s.seen[key]; have {
		return ok, nil
	}
	ok, err := s.may(ctx, s.user, verb, resource, namespace, name)
	if err == nil {
		s.seen[key] = ok
	}
	return ok, err
}

// sees reports whether the user sees a record: who may list records sees all, who may get those of a cluster by its
// UID sees these, and who may get an object of this cluster sees its records (KR-16-40). An object of a kind that the API server does not
// know is seen by the former two.
func (s *sight) sees(ctx context.Context, r *records.Record) (bool, error) {
	for _, auditor := range []struct{ verb, name string }{{"list", ""}, {"get", string(r.Cluster.UID)}} {
		if ok, err := s.allowed(ctx, auditor.verb, recordsOf, "", auditor.name); ok || err != nil {
			return ok, err
		}
	}
	if string(r.Cluster.UID) != s.Cluster {
		return false, nil
	}
	m, err := s.Mapper.RESTMapping(schema.GroupKind{Group: r.Object.Group(), Kind: r.Object.Kind})
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot find the resource of kind %s: %w", r.Object.Kind, err)
	}
	namespace := r.Object.Namespace
	if m.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = ""
	}
	if ok, err := s.allowed(ctx, "get", m.Resource, namespace, ""); ok || err != nil || r.Object.Name == "" {
		return ok, err
	}
	return s.allowed(ctx, "get", m.Resource, namespace, r.Object.Name)
}
