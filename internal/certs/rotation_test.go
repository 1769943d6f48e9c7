package certs

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"testing"
	"time"
)

var (
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	hosts = []string{"kausality-webhook.kausality-system.svc", "127.0.0.1"}
)

// call as an API server that trusts the bundle of one state does it to a
// replica that serves with the certificate of another.
func call(t *testing.T, now time.Time, client, server State) error {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(client.Bundle()) {
		t.Fatal("the bundle holds no certificate")
	}
	a, b := net.Pipe()
	defer a.Close() //nolint:errcheck // A pipe in memory.
	defer b.Close() //nolint:errcheck // A pipe in memory.
	deadline := time.Now().Add(time.Minute)
	if err := errors.Join(a.SetDeadline(deadline), b.SetDeadline(deadline)); err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return now }
	go func() {
		_ = tls.Server(b, &tls.Config{Time: clock, MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{
			Certificate: [][]byte{server.Serving.Certificate.Raw}, PrivateKey: server.Serving.Key,
		}}}).Handshake()
	}()
	return tls.Client(a, &tls.Config{Time: clock, MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: hosts[0]}).Handshake()
}

// history of states, to look at with a delay.
type history []struct {
	at    time.Time
	state State
}

func (h history) before(now time.Time, lag time.Duration) State {
	for _, e := range slices.Backward(h) {
		if !e.at.After(now.Add(-lag)) {
			return e.state
		}
	}
	return h[0].state
}

// TestFiveYears: over five years no call fails, whichever process observes a step
// late (KR-12-06).
func TestFiveYears(t *testing.T) {
	cases := map[string]Rotation{
		"Defaults":   {Hosts: hosts},
		"ShortLives": {Hosts: hosts, AuthorityLife: 60 * 24 * time.Hour, ServingLife: 20 * 24 * time.Hour},
	}
	for name, r := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, settle := r.lives()
			late := settle - time.Minute
			var all history
			var state State
			calls, authorities, servings := 0, map[string]bool{}, map[string]bool{}
			for now := start; now.Before(start.AddDate(5, 0, 0)); {
				next, again, err := r.Step(state, now)
				if err != nil {
					t.Fatal(err)
				}
				state = next
				all = append(all, struct {
					at    time.Time
					state State
				}{now, state})
				authorities[newest(state.Authorities).Certificate.SerialNumber.String()] = true
				servings[state.Serving.Certificate.SerialNumber.String()] = true
				for _, lag := range [][2]time.Duration{{0, 0}, {late, 0}, {0, late}, {late, late}} {
					if err := call(t, now, all.before(now, lag[0]), all.before(now, lag[1])); err != nil {
						t.Fatalf("%s: the API server %s late, the replica %s late: %v", now, lag[0], lag[1], err)
					}
					calls++
				}
				now = now.Add(min(again, 72*time.Hour))
			}
			if calls < 4*5*120 || len(authorities) < 4 || len(servings) < 25 {
				t.Errorf("%d calls, %d authorities, %d serving certificates: nothing was rotated", calls, len(authorities), len(servings))
			}
			t.Logf("%d calls, %d authorities, %d serving certificates", calls, len(authorities), len(servings))
		})
	}
}

// TestStepIsSteady: where nothing is due nothing changes, however often Step is
// called, and a stored state is read as it was written.
func TestStepIsSteady(t *testing.T) {
	r := Rotation{Hosts: hosts}
	state, _, err := r.Step(State{}, start)
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []time.Duration{0, time.Minute, 2 * time.Hour, 30 * 24 * time.Hour} {
		next, again, err := r.Step(state, start.Add(after))
		if err != nil || !equal(t, next, state) {
			t.Fatalf("after %s: changed, error %v", after, err)
		}
		if again < time.Second || again > 60*24*time.Hour {
			t.Errorf("after %s: again in %s", after, again)
		}
	}
	raw, err := EncodeAll(state.Authorities)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := state.Serving.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back := State{}
	if back.Authorities, err = DecodeAll(raw); err != nil {
		t.Fatal(err)
	}
	if back.Serving, err = Decode(cert, key); err != nil {
		t.Fatal(err)
	}
	if !equal(t, back, state) {
		t.Error("read back, it is another state")
	}
}

func equal(t *testing.T, a, b State) bool {
	t.Helper()
	same := func(a, b Pair) bool { return a.Certificate.Equal(b.Certificate) && a.Key.Equal(b.Key) }
	return slices.EqualFunc(a.Authorities, b.Authorities, same) && same(a.Serving, b.Serving)
}

func TestStepMends(t *testing.T) {
	r := Rotation{Hosts: hosts}
	good, _, err := r.Step(State{}, start)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := Rotation{Hosts: []string{"elsewhere.example.org"}}.Step(State{}, start)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		state State
		now   time.Time
	}{
		"NoServing":       {State{Authorities: good.Authorities}, start},
		"NoAuthority":     {State{Serving: good.Serving}, start},
		"OtherHosts":      {State{Authorities: other.Authorities, Serving: other.Serving}, start},
		"OtherAuthority":  {State{Authorities: good.Authorities, Serving: other.Serving}, start},
		"Expired":         {good, start.AddDate(10, 0, 0)},
		"ServingExpired":  {good, start.AddDate(0, 4, 0)},
		"ClockWentBack":   {good, start.AddDate(0, 0, -1)},
		"AsleepForMonths": {good, start.AddDate(1, 11, 0)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			next, _, err := r.Step(tc.state, tc.now)
			if err != nil {
				t.Fatal(err)
			}
			if name == "ClockWentBack" {
				return // it is valid later, by the clock alone
			}
			if err := call(t, tc.now, next, next); err != nil {
				t.Error(err)
			}
		})
	}
	if _, _, err := (Rotation{}).Step(State{}, start); err == nil {
		t.Error("a certificate without hosts was made")
	}
}

func FuzzDecodeAll(f *testing.F) {
	state, _, err := Rotation{Hosts: hosts}.Step(State{}, start)
	if err != nil {
		f.Fatal(err)
	}
	raw, err := EncodeAll(state.Authorities)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte("-----BEGIN EC PRIVATE KEY-----\n-----END EC PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		pairs, err := DecodeAll(raw)
		if err != nil {
			return
		}
		for _, p := range pairs {
			if public, ok := p.Certificate.PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(p.Key.Public()) {
				t.Error("a key that does not fit its certificate")
			}
		}
	})
}
