package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

const (
	blockCertificate = "CERTIFICATE"
	blockKey         = "EC PRIVATE KEY"
)

// Bundle of the authorities' certificates in PEM, for clients to trust.
func (s State) Bundle() []byte {
	var out bytes.Buffer
	for _, a := range s.Authorities {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: a.Certificate.Raw}))
	}
	return out.Bytes()
}

// Encode a pair in PEM; nothing for none.
func (p Pair) Encode() (cert, key []byte, err error) {
	if p.Certificate == nil {
		return nil, nil, nil
	}
	der, err := x509.MarshalECPrivateKey(p.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: p.Certificate.Raw}), pem.EncodeToMemory(&pem.Block{Type: blockKey, Bytes: der}), nil
}

// EncodeAll pairs, one after the other, each certificate followed by its key.
func EncodeAll(pairs []Pair) ([]byte, error) {
	var out bytes.Buffer
	for _, p := range pairs {
		cert, key, err := p.Encode()
		if err != nil {
			return nil, err
		}
		out.Write(cert)
		out.Write(key)
	}
	return out.Bytes(), nil
}

// DecodeAll is the reverse of EncodeAll.
func DecodeAll(raw []byte) ([]Pair, error) {
	var out []Pair
	for {
		var block *pem.Block
		if block, raw = pem.Decode(raw); block == nil {
			return out, complete(out)
		}
		switch block.Type {
		case blockCertificate:
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("cannot read a certificate: %w", err)
			}
			out = append(out, Pair{Certificate: c})
		case blockKey:
			key, err := x509.ParseECPrivateKey(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("cannot read a key: %w", err)
			}
			if len(out) == 0 {
				return nil, errors.New("cannot read a key: it comes before its certificate")
			}
			out[len(out)-1].Key = key
		}
	}
}

// complete returns an error if a certificate has no key, or the key of another
// certificate: a Secret that was edited by hand must not be served.
func complete(pairs []Pair) error {
	for _, p := range pairs {
		if p.Key == nil {
			return errors.New("cannot read a certificate: its key is missing")
		}
		if public, ok := p.Certificate.PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(p.Key.Public()) {
			return errors.New("cannot read a certificate: its key is another one's")
		}
	}
	return nil
}

// Decode one pair, of a Secret of type kubernetes.io/tls; none for nothing.
func Decode(cert, key []byte) (Pair, error) {
	if len(cert) == 0 && len(key) == 0 {
		return Pair{}, nil
	}
	pairs, err := DecodeAll(append(append(bytes.Clone(cert), '\n'), key...))
	if err != nil || len(pairs) == 0 {
		return Pair{}, errors.Join(err, errors.New("cannot read the serving certificate"))
	}
	return pairs[0], nil
}
