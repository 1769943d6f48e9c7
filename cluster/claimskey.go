package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/parent"
)

// KeyOfClaims is the key of the Secret with the key that seals claims, and MinClaimsKey its length in bytes at least.
const (
	KeyOfClaims  = "key"
	MinClaimsKey = 32
)

const (
	claimsKeyEvery  = time.Second
	claimsKeyAgain  = time.Minute
	claimsKeyWithin = 10 * time.Second
)

// ClaimsKey names the Secret with the key that seals claims; the zero value for none.
type ClaimsKey struct{ Namespace, Name string }

// errNoClaimsKey is why a process is not ready that has read no key.
var errNoClaimsKey = errors.New("the key that seals claims is not read yet")

// readClaimsKey waits for the key that seals claims, so that nothing is read of which it would not be known whether it counts, and then
// follows it until the context ends. A Secret that is re-created has another key, which seals from then on.
func readClaimsKey(ctx context.Context, c *Cluster) error {
	if c.ClaimsKey.Name == "" {
		return nil
	}
	err := wait.PollUntilContextCancel(ctx, claimsKeyEvery, true, func(ctx context.Context) (bool, error) {
		if err := useClaimsKey(ctx, c); err != nil {
			c.Log.Info("waiting for the key that seals claims", "error", err.Error())
			return false, nil
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errNoClaimsKey, err)
	}
	c.keyed.Store(true)
	go wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := useClaimsKey(ctx, c); err != nil {
			c.Log.Info("cannot read the key that seals claims again; the one that was read seals on", "error", err.Error())
		}
	}, claimsKeyAgain)
	return nil
}

func useClaimsKey(ctx context.Context, c *Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, claimsKeyWithin)
	defer cancel()
	s, err := c.Kubernetes.CoreV1().Secrets(c.ClaimsKey.Namespace).Get(ctx, c.ClaimsKey.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	key := s.Data[KeyOfClaims]
	if len(key) < MinClaimsKey {
		return fmt.Errorf("secret %s/%s has no %s of %d bytes; delete it, so that the policy controller re-creates it",
			s.Namespace, s.Name, KeyOfClaims, MinClaimsKey)
	}
	c.Claims.Use(key)
	return nil
}

// Sealed is an object whose claims are sealed.
func Sealed(ref parent.Ref) approval.Sealed {
	return approval.Sealed{Kind: ref.GroupKind(), Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
}

// Trust puts the claims that count into the state of an object that was read by other means than States.
func (s *States) Trust(o *parent.State) {
	o.Annotations = s.claims.Trusted(Sealed(o.Ref), o.Annotations, clock.Now())
}
