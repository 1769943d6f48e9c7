package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// How long certificates are valid. They begin an hour ago, for clocks that differ.
const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 365 * 24 * time.Hour
	skew     = time.Hour
)

// Names of the files that ServingCert writes, which are those of a Secret of type
// kubernetes.io/tls as cert-manager and Crossplane fill it.
const (
	FileCert = "tls.crt"
	FileKey  = "tls.key"
	FileCA   = "ca.crt"
)

// A CA is a certificate authority that lives in memory. Its methods are safe for concurrent use.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// NewCA makes an authority of that name.
func NewCA(name string) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make a key: %w", err)
	}

	t := template(pkix.Name{CommonName: name}, caLife)
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature

	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("cannot make the authority %s: %w", name, err)
	}

	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("cannot read the authority %s: %w", name, err)
	}

	return &CA{cert: cert, key: key, pem: encode("CERTIFICATE", der)}, nil
}

// Bundle returns the certificate of the authority in PEM, as a caBundle takes it.
func (a *CA) Bundle() []byte { return append([]byte(nil), a.pem...) }

// ServingCert writes tls.crt, tls.key and ca.crt to dir, which it creates. The certificate is good
// for a server under the hosts (names or IP addresses; none: localhost and 127.0.0.1), and for a
// client that a server with the same ca.crt requires a certificate of.
func (a *CA) ServingCert(dir string, hosts ...string) error {
	if len(hosts) == 0 {
		hosts = []string{"localhost", "127.0.0.1"}
	}

	cert, key, err := a.issue(pkix.Name{CommonName: hosts[0]}, hosts...)
	if err != nil {
		return err
	}

	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot create the directory for certificates: %w", err)
	}

	for name, data := range map[string][]byte{FileCert: cert, FileKey: key, FileCA: a.pem} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return fmt.Errorf("cannot write a certificate: %w", err)
		}
	}

	return nil
}

// issue returns a certificate, followed by that of the authority, and its key, both in PEM.
func (a *CA) issue(subject pkix.Name, hosts ...string) (cert, key []byte, err error) {
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a key: %w", err)
	}

	t := template(subject, leafLife)
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}

	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, priv.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a certificate for %s: %w", subject.CommonName, err)
	}

	key, err = encodeKey(priv)

	return append(encode("CERTIFICATE", der), a.pem...), key, err
}

// template returns what all certificates have.
func template(subject pkix.Name, life time.Duration) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // Never fails: crypto/rand.

	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    time.Now().Add(-skew),
		NotAfter:     time.Now().Add(life),
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("cannot encode a key: %w", err)
	}

	return encode("EC PRIVATE KEY", der), nil
}
