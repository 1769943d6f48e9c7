package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// Rotation defines the lifetimes and the hosts of certificates.
type Rotation struct {
	// Hosts of the serving certificate: DNS names and IP addresses.
	Hosts []string
	// AuthorityLife and ServingLife; 2 years and 90 days where 0. A certificate
	// is replaced when a third of its life is left.
	AuthorityLife, ServingLife time.Duration
}

// Defaults of a Rotation.
const (
	DefaultAuthorityLife = 2 * 365 * 24 * time.Hour
	DefaultServingLife   = 90 * 24 * time.Hour
	// maxSettle is the time that all processes have to observe a step.
	maxSettle = time.Hour
	// maxAuthorities bounds the bundle, whatever the lives.
	maxAuthorities = 4
)

// Pair is a certificate with its key. The zero value is no certificate.
type Pair struct {
	Certificate *x509.Certificate
	Key         *ecdsa.PrivateKey
}

// State that is stored.
type State struct {
	// Authorities, oldest first.
	Authorities []Pair
	Serving     Pair
}

// lives of the certificates, and the time that API servers and replicas have to observe
// a step. It is shorter for short lives, so that tests see several changes of authority.
func (r Rotation) lives() (authority, serving, settle time.Duration) {
	authority, serving = r.AuthorityLife, r.ServingLife
	if authority <= 0 {
		authority = DefaultAuthorityLife
	}
	if serving <= 0 {
		serving = DefaultServingLife
	}
	return authority, serving, min(maxSettle, serving/12)
}

// Step from a stored state to what should be stored now, and how long until
// there may be something to do again. Where nothing is to be done, the state it
// returns is the one it was given. state is not modified (KR-12-06).
func (r Rotation) Step(state State, now time.Time) (next State, again time.Duration, err error) {
	authorityLife, servingLife, settle := r.lives()
	next = State{Authorities: slices.DeleteFunc(slices.Clone(state.Authorities), func(p Pair) bool { return !valid(p, now) }), Serving: state.Serving}
	if newest := newest(next.Authorities); newest.Certificate == nil || due(newest.Certificate, now) {
		made, err := authority(now, authorityLife)
		if err != nil {
			return state, 0, err
		}
		next.Authorities = append(next.Authorities, made)
	}
	signer := r.signer(next.Authorities, now, settle)
	if !r.serves(next, now) || due(next.Serving.Certificate, now) || newer(signer, next) {
		if next.Serving, err = serving(signer, r.Hosts, now, servingLife); err != nil {
			return state, 0, err
		}
	}
	next.Authorities = needed(next, now, settle)
	return next, r.again(next, now, settle), nil
}

// newest returns the newest authority; the zero Pair for no authorities.
func newest(authorities []Pair) Pair {
	if len(authorities) == 0 {
		return Pair{}
	}
	return authorities[len(authorities)-1]
}

// valid reports whether a pair is complete and has not expired.
func valid(p Pair, now time.Time) bool {
	return p.Certificate != nil && p.Key != nil && now.Before(p.Certificate.NotAfter)
}

// made returns when a certificate was made: it is valid from a little earlier, for
// clocks that differ.
func made(c *x509.Certificate) time.Time {
	return c.NotBefore.Add(skew(c.NotAfter.Sub(c.NotBefore) / 2))
}

// skew of clocks that is allowed for a certificate of a life.
func skew(life time.Duration) time.Duration { return min(time.Hour, life) }

// due reports whether less than a third of a certificate's life is left.
func due(c *x509.Certificate, now time.Time) bool {
	return c == nil || now.After(c.NotAfter.Add(-c.NotAfter.Sub(made(c))/3))
}

// signer returns the newest authority that all processes trust; the oldest authority
// if all are too new for that.
func (r Rotation) signer(authorities []Pair, now time.Time, settle time.Duration) Pair {
	for _, a := range slices.Backward(authorities) {
		if !now.Before(made(a.Certificate).Add(settle)) {
			return a
		}
	}
	return authorities[0]
}

// serves reports whether the serving certificate is good: in time, for the
// hosts, by an authority of the bundle.
func (r Rotation) serves(s State, now time.Time) bool {
	if !valid(s.Serving, now) || signedBy(s) < 0 {
		return false
	}
	return !slices.ContainsFunc(r.Hosts, func(h string) bool { return s.Serving.Certificate.VerifyHostname(h) != nil })
}

// signedBy returns the index of the authority of the serving certificate; -1 for none.
func signedBy(s State) int {
	return slices.IndexFunc(s.Authorities, func(a Pair) bool { return s.Serving.Certificate.CheckSignatureFrom(a.Certificate) == nil })
}

// newer reports whether the signer is newer than the authority in use. The
// serving certificate changes over at once, so that the old authority can go.
func newer(signer Pair, s State) bool {
	return s.Serving.Certificate.CheckSignatureFrom(signer.Certificate) != nil
}

// needed authorities: the one in use, newer ones, and older ones for as long as
// a replica may not have learnt of the new serving certificate.
func needed(s State, now time.Time, settle time.Duration) []Pair {
	used := signedBy(s)
	from := used
	if now.Before(made(s.Serving.Certificate).Add(settle)) {
		from = 0
	}
	return s.Authorities[max(from, len(s.Authorities)-maxAuthorities):]
}

// again returns when the next step may be due.
func (r Rotation) again(s State, now time.Time, settle time.Duration) time.Duration {
	soonest := func(c *x509.Certificate) time.Duration { return c.NotAfter.Add(-c.NotAfter.Sub(made(c)) / 3).Sub(now) }
	out := min(soonest(newest(s.Authorities).Certificate), soonest(s.Serving.Certificate))
	if len(s.Authorities) > 1 { // a change-over is on its way
		out = min(out, settle/4)
	}
	return max(out, time.Second)
}

// authority makes a self-signed authority. Its name has the time, so that two of them
// in one bundle differ by name: verifiers choose by name.
func authority(now time.Time, life time.Duration) (Pair, error) {
	t := template(pkix.Name{CommonName: "kausality-webhook-ca", SerialNumber: now.UTC().Format("20060102150405")}, now, life)
	t.IsCA, t.BasicConstraintsValid, t.MaxPathLenZero = true, true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	return issue(t, Pair{})
}

// serving makes a certificate for hosts, DNS names or IP addresses, signed by an
// authority and valid no longer than that.
func serving(by Pair, hosts []string, now time.Time, life time.Duration) (Pair, error) {
	if len(hosts) == 0 {
		return Pair{}, fmt.Errorf("cannot make a serving certificate: no host to make it for")
	}
	t := template(pkix.Name{CommonName: "kausality-webhook"}, now, life)
	t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if t.NotAfter.After(by.Certificate.NotAfter) {
		t.NotAfter = by.Certificate.NotAfter
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	return issue(t, by)
}

func template(name pkix.Name, now time.Time, life time.Duration) *x509.Certificate {
	return &x509.Certificate{Subject: name, NotBefore: now.Add(-skew(life)), NotAfter: now.Add(life)}
}

// issue a certificate, which is self-signed if by is the zero Pair.
func issue(t *x509.Certificate, by Pair) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("cannot make a key: %w", err)
	}
	if t.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return Pair{}, fmt.Errorf("cannot make a serial number: %w", err)
	}
	parent, signer := t, key
	if by.Certificate != nil {
		parent, signer = by.Certificate, by.Key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), signer)
	if err != nil {
		return Pair{}, fmt.Errorf("cannot make a certificate: %w", err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return Pair{}, fmt.Errorf("cannot read a certificate just made: %w", err)
	}
	return Pair{Certificate: c, Key: key}, nil
}
