package hosted

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// keyFile has the key that seals, in a directory with those that open.
	keyFile = "key"
	// minKey and maxKeys bound the keys: bytes of one, and how many there are.
	minKey  = 32
	maxKeys = 8
	// maxSealed is the length of a sealed value: browsers keep cookies of 4096 bytes, with their names and attributes.
	maxSealed = 3800
	// keysEvery is how often the keys are read again.
	keysEvery = 10 * time.Second
)

// sealer seals what a browser keeps, so that only replicas of this page read it, and notice a change (KR-17-30). It is safe for concurrent use.
type sealer struct {
	dir, origin string
	now         func() time.Time
	keys        atomic.Pointer[keys]
}

// keys in use.
type keys struct {
	// sealing is the first: what is sealed by the others is opened, too.
	all [][]byte
	sum [sha256.Size]byte
}

// newSealer returns a sealer with the keys of a directory, for the page of an origin.
func newSealer(dir, origin string, now func() time.Time) (*sealer, error) {
	s := &sealer{dir: dir, origin: origin, now: now}
	return s, s.read()
}

// read reads the keys: "key" seals, every file opens.
func (s *sealer) read() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("cannot read the keys of cookies: %w", err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && e.Name() != keyFile {
			names = append(names, e.Name())
		}
	}
	next, sum := &keys{}, sha256.New()
	for _, name := range append([]string{keyFile}, names...)[:min(len(names)+1, maxKeys)] {
		raw, err := os.ReadFile(filepath.Join(s.dir, name)) //nolint:gosec // The operator names the directory.
		if err != nil {
			return fmt.Errorf("cannot read a key of cookies: %w", err)
		}
		if len(raw) < minKey {
			return fmt.Errorf("the key of cookies %s has %d bytes, and needs %d random ones", filepath.Join(s.dir, name), len(raw), minKey)
		}
		k, err := s.derive(raw)
		if err != nil {
			return err
		}
		next.all = append(next.all, k)
		_, _ = sum.Write(k)
	}
	copy(next.sum[:], sum.Sum(nil))
	s.keys.Store(next)
	return nil
}

// derive derives the key for this page of a secret.
func (s *sealer) derive(secret []byte) ([]byte, error) {
	out, err := hkdf.Key(sha256.New, secret, nil, "kausality page "+s.origin, 32)
	if err != nil {
		return nil, fmt.Errorf("cannot derive a key of cookies: %w", err)
	}
	return out, nil
}

// watch reads the keys again until ctx ends: replaced ones are used without a restart. What cannot be read is being written.
func (s *sealer) watch(ctx context.Context, log logr.Logger) {
	wait.UntilWithContext(ctx, func(context.Context) {
		before := s.keys.Load().sum
		if err := s.read(); err != nil {
			log.Error(err, "cannot read the keys of cookies again; those in use stay")
		} else if s.keys.Load().sum != before {
			log.Info("the keys of cookies have changed")
		}
	}, keysEvery)
}

// errTooLarge is a value that no cookie holds.
var errTooLarge = errors.New("it does not fit into a cookie")

// seal a value for a purpose, for some time.
func (s *sealer) seal(purpose string, value any, valid time.Duration) (string, error) {
	by, err := jose.NewEncrypter(jose.A256GCM, jose.Recipient{Algorithm: jose.DIRECT, Key: s.keys.Load().all[0]},
		&jose.EncrypterOptions{Compression: jose.DEFLATE})
	if err != nil {
		return "", fmt.Errorf("cannot seal: %w", err)
	}
	claims := jwt.Claims{Audience: jwt.Audience{purpose}, Expiry: jwt.NewNumericDate(s.now().Add(valid))}
	text, err := jwt.Encrypted(by).Claims(claims).Claims(sealed{value}).Serialize()
	if err != nil {
		return "", fmt.Errorf("cannot seal: %w", err)
	}
	if len(text) > maxSealed {
		return "", errTooLarge
	}
	return text, nil
}

// sealed value, beside the claims.
type sealed struct {
	Value any `json:"value"`
}

// open a sealed value of a purpose; false where it is none of this page, or too old.
func (s *sealer) open(purpose, text string, value any) bool {
	if text == "" || len(text) > maxSealed {
		return false
	}
	token, err := jwt.ParseEncrypted(text, []jose.KeyAlgorithm{jose.DIRECT}, []jose.ContentEncryption{jose.A256GCM})
	if err != nil {
		return false
	}
	for _, k := range s.keys.Load().all {
		claims := jwt.Claims{}
		if token.Claims(k, &claims) != nil {
			continue
		}
		// The value is not touched before its claims count: the next cookie of that name would be read over what it has left there.
		if claims.Expiry == nil || claims.ValidateWithLeeway(jwt.Expected{AnyAudience: jwt.Audience{purpose}, Time: s.now()}, 0) != nil {
			return false
		}
		return token.Claims(k, &sealed{value}) == nil
	}
	return false
}

// cookies of this page.
type cookies struct {
	*sealer
	secure bool
}

// name of a cookie. The prefix has browsers take it from this host alone.
func (c cookies) name(of string) string {
	if c.secure {
		return "__Host-kausality-" + of
	}
	return "kausality-" + of
}

// set a sealed cookie.
func (c cookies) set(w http.ResponseWriter, of string, value any, valid time.Duration) error {
	text, err := c.seal(of, value, valid)
	if err != nil {
		return err
	}
	c.write(w, of, text, int(valid/time.Second))
	return nil
}

// clear a cookie.
func (c cookies) clear(w http.ResponseWriter, of string) { c.write(w, of, "", -1) }

// write a cookie; one of the same name that was written before is replaced.
func (c cookies) write(w http.ResponseWriter, of, text string, age int) {
	h := w.Header()
	h["Set-Cookie"] = slices.DeleteFunc(h["Set-Cookie"], func(v string) bool { return strings.HasPrefix(v, c.name(of)+"=") })
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Without https it is a test on one computer.
		Name: c.name(of), Value: text, Path: "/", MaxAge: age, HttpOnly: true, Secure: c.secure, SameSite: http.SameSiteLaxMode,
	})
}

// get opens a cookie of a request; false where there is none of this page.
func (c cookies) get(r *http.Request, of string, value any) bool {
	for _, one := range r.CookiesNamed(c.name(of)) {
		if c.open(of, one.Value, value) {
			return true
		}
	}
	return false
}
