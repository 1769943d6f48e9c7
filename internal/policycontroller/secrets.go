package policycontroller

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/certs"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

// keyAuthorities of the Secret with the authorities.
const keyAuthorities = "authorities.pem"

// Intervals of reading certificates that another controller makes: foreignSoon
// until the first certificate exists.
const (
	foreignEvery = 10 * time.Second
	foreignSoon  = time.Second
)

// renewal of the certificates, begun.
type renewal struct {
	// bundle for the API server to trust; nil where there is no certificate yet.
	bundle []byte
	again  time.Duration
	// finish stores what is served, once the bundle is known.
	finish func(context.Context) error
}

// createClaimsKey creates the key that seals claims if it does not exist. The key is never replaced: all votes and pending approvals would be lost
// with it (KR-13-69).
func createClaimsKey(ctx context.Context, c *Controller) error {
	s, err := c.secret(ctx, manifests.SecretClaimsKey)
	if err != nil || s.ResourceVersion != "" {
		return err
	}
	key := make([]byte, cluster.MinClaimsKey)
	_, _ = rand.Read(key) // never fails
	return c.store(ctx, s, corev1.SecretTypeOpaque, map[string][]byte{cluster.KeyOfClaims: key})
}

// rotate the certificates as far as may be before the bundle is known, and create the key of claims.
func (c *Controller) rotate(ctx context.Context) (renewal, error) {
	if err := createClaimsKey(ctx, c); err != nil {
		return renewal{}, err
	}
	serving, err := c.secret(ctx, manifests.SecretServing)
	if err != nil {
		return renewal{}, err
	}
	if c.ForeignCertificates {
		out := renewal{again: foreignEvery, finish: func(context.Context) error { return nil }}
		if ca := serving.Data[corev1.ServiceAccountRootCAKey]; len(ca) > 0 {
			out.bundle = ca
		} else {
			out.again = foreignSoon
		}
		return out, nil
	}
	authorities, err := c.secret(ctx, manifests.SecretAuthority)
	if err != nil {
		return renewal{}, err
	}
	state := c.state(authorities, serving)
	next, again, err := c.Rotation.Step(state, c.Now())
	if err != nil {
		return renewal{}, err
	}
	raw, err := certs.EncodeAll(next.Authorities)
	if err != nil {
		return renewal{}, err
	}
	if !bytes.Equal(raw, authorities.Data[keyAuthorities]) {
		if err := c.store(ctx, authorities, corev1.SecretTypeOpaque, map[string][]byte{keyAuthorities: raw}); err != nil {
			return renewal{}, err
		}
	}
	return renewal{bundle: next.Bundle(), again: again, finish: func(ctx context.Context) error { return c.serve(ctx, serving, next) }}, nil
}

// state that is stored. What cannot be parsed is created again: it is our own, and
// no other component could use it.
func (c *Controller) state(authorities, serving *corev1.Secret) certs.State {
	var s certs.State
	var err error
	if s.Authorities, err = certs.DecodeAll(authorities.Data[keyAuthorities]); err != nil {
		c.Log.Error(err, "cannot parse the stored authorities, creating new ones", "secret", manifests.SecretAuthority)
		s.Authorities = nil
	}
	if s.Serving, err = certs.Decode(serving.Data[corev1.TLSCertKey], serving.Data[corev1.TLSPrivateKeyKey]); err != nil {
		c.Log.Error(err, "cannot parse the stored serving certificate, creating a new one", "secret", manifests.SecretServing)
		s.Serving = certs.Pair{}
	}
	return s
}

// serve the certificate of a state: it writes the Secret that the webhook watches
// where it differs. The Secret has the bundle, too, for other users of it.
func (c *Controller) serve(ctx context.Context, stored *corev1.Secret, next certs.State) error {
	cert, key, err := next.Serving.Encode()
	if err != nil {
		return err
	}
	bundle := next.Bundle()
	if bytes.Equal(stored.Data[corev1.TLSCertKey], cert) && bytes.Equal(stored.Data[corev1.TLSPrivateKeyKey], key) &&
		bytes.Equal(stored.Data[corev1.ServiceAccountRootCAKey], bundle) {
		return nil
	}
	return c.store(ctx, stored, corev1.SecretTypeTLS, map[string][]byte{
		corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key, corev1.ServiceAccountRootCAKey: bundle,
	})
}

// secret as it is; an empty one where it does not exist.
func (c *Controller) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	err := c.Direct.Get(ctx, client.ObjectKey{Namespace: manifests.Namespace, Name: name}, s)
	if kerrors.IsNotFound(err) {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: manifests.Namespace, Name: name}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read secret %s: %w", name, err)
	}
	return s, nil
}

// store a Secret. A conflict means that another replica was the leader a moment
// ago; the next round starts from what it wrote.
func (c *Controller) store(ctx context.Context, s *corev1.Secret, kind corev1.SecretType, data map[string][]byte) error {
	s = s.DeepCopy()
	s.Data = data
	s.Labels = merged(s.Labels, ownLabels())
	var err error
	if s.OwnerReferences, err = c.owners(ctx); err != nil {
		return err
	}
	if s.ResourceVersion == "" {
		s.Type = kind
		err = c.Direct.Create(ctx, s, client.FieldOwner(v1alpha1.ManagerController))
	} else {
		err = c.Direct.Update(ctx, s, client.FieldOwner(v1alpha1.ManagerController))
	}
	if err != nil {
		return fmt.Errorf("cannot store secret %s: %w", s.Name, err)
	}
	writes.WithLabelValues("Secret").Inc()
	c.Log.Info("stored", "secret", s.Name)
	return nil
}
