package hosted

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// keyring is a directory with keys.
type keyring struct {
	t   *testing.T
	dir string
	at  time.Time
}

func newKeyring(t *testing.T) *keyring {
	k := &keyring{t: t, dir: t.TempDir(), at: time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)}
	k.put(keyFile, strings.Repeat("a", minKey))
	return k
}

func (k *keyring) put(name, key string) {
	require.NoError(k.t, os.WriteFile(filepath.Join(k.dir, name), []byte(key), 0o600))
}

func (k *keyring) sealer(origin string) *sealer {
	s, err := newSealer(k.dir, origin, func() time.Time { return k.at })
	require.NoError(k.t, err)
	return s
}

// TestSeal covers KR-17-30: what a browser keeps is opened by replicas of the same page, for its purpose and time, and by no other.
func TestSeal(t *testing.T) {
	k := newKeyring(t)
	s, value := k.sealer("https://a.example.org"), ""
	text, err := s.seal("session", "hans", time.Hour)
	require.NoError(t, err)
	assert.NotContains(t, text, "hans")
	assert.True(t, k.sealer("https://a.example.org").open("session", text, &value), "another replica")
	assert.Equal(t, "hans", value)
	assert.False(t, k.sealer("https://b.example.org").open("session", text, &value), "another installation")
	assert.False(t, s.open("login", text, &value), "another purpose")
	assert.False(t, s.open("session", "", &value))
	assert.False(t, s.open("session", strings.Repeat("x", maxSealed+1), &value))
	for n := range len(text) {
		changed := []byte(text)
		if changed[n] ^= 0x20; s.open("session", string(changed), &value) {
			t.Errorf("opened with byte %d changed", n)
		}
	}
	k.at = k.at.Add(time.Hour + time.Second)
	assert.False(t, s.open("session", text, &value), "it is too old")
	raw := make([]byte, maxSealed)
	_, _ = rand.Read(raw)
	_, err = s.seal("session", hex.EncodeToString(raw), time.Hour)
	require.ErrorIs(t, err, errTooLarge)
}

// TestOpenLeavesNothing covers KR-17-30: of a cookie that does not count any more nothing is part of the next one that does.
func TestOpenLeavesNothing(t *testing.T) {
	k := newKeyring(t)
	c := cookies{k.sealer("https://a.example.org"), true}
	sealed := func(value ticket, valid time.Duration) *http.Cookie {
		text, err := c.seal(cookieSession, value, valid)
		require.NoError(t, err)
		return &http.Cookie{Name: c.name(cookieSession), Value: text} //nolint:gosec // It is one of a request.
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.AddCookie(sealed(ticket{Person: Person{User: "mallory", Groups: []string{"platform"}}, Refresh: "old"}, time.Minute))
	r.AddCookie(sealed(ticket{Person: Person{User: "mallory"}}, time.Hour))
	k.at = k.at.Add(2 * time.Minute)
	got := ticket{}
	require.True(t, c.get(r, cookieSession, &got))
	assert.Equal(t, ticket{Person: Person{User: "mallory"}}, got)
}

// TestKeysRotate covers KR-17-30: with the next key beside the one that seals, then the one before, each replica opens what another seals.
func TestKeysRotate(t *testing.T) {
	k := newKeyring(t)
	before, value := k.sealer("o"), ""
	sealed := func(s *sealer) string {
		text, err := s.seal("session", "hans", time.Hour)
		require.NoError(t, err)
		return text
	}
	old := sealed(before)
	k.put("next", strings.Repeat("b", minKey))
	require.NoError(t, before.read())
	after := k.sealer("o")
	k.put(keyFile, strings.Repeat("b", minKey))
	k.put("next", strings.Repeat("a", minKey))
	require.NoError(t, after.read())
	assert.True(t, before.open("session", sealed(after), &value), "a replica that has not read the keys again")
	assert.True(t, after.open("session", old, &value), "no session ends")
	require.NoError(t, os.Remove(filepath.Join(k.dir, "next")))
	require.NoError(t, after.read())
	assert.False(t, after.open("session", old, &value))
	k.put(keyFile, "short")
	require.ErrorContains(t, after.read(), "needs 32 random ones")
	assert.True(t, after.open("session", sealed(after), &value), "those in use stay")
	_, err := newSealer(filepath.Join(k.dir, "none"), "o", time.Now)
	require.ErrorContains(t, err, "cannot read the keys")
}

// TestCookies covers KR-17-30: cookies are for this host, not for scripts, and the last of a name counts.
func TestCookies(t *testing.T) {
	k := newKeyring(t)
	c := cookies{k.sealer("o"), true}
	w := httptest.NewRecorder()
	require.NoError(t, c.set(w, "session", "hans", time.Hour))
	require.NoError(t, c.set(w, "session", "anna", time.Hour))
	require.NoError(t, c.set(w, "notice", "done", time.Hour))
	all := w.Result().Cookies()
	require.Len(t, all, 2)
	for _, one := range all {
		assert.True(t, strings.HasPrefix(one.Name, "__Host-"), one.Name)
		assert.True(t, one.Secure && one.HttpOnly && one.Path == "/" && one.Domain == "" && one.SameSite == http.SameSiteLaxMode)
	}
	r, value := httptest.NewRequest(http.MethodGet, "/", nil), ""
	r.AddCookie(&http.Cookie{Name: c.name("session"), Value: "of another site below the same domain"}) //nolint:gosec // It is one of a request.
	r.AddCookie(all[0])
	assert.True(t, c.get(r, "session", &value))
	assert.Equal(t, "anna", value)
	assert.False(t, c.get(r, "notice", &value))
}
