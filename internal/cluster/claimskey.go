package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

// KeyOfClaims is the key of the Secret with the key that seals claims, and MinClaimsKey its length in bytes at least.
const (
	KeyOfClaims  = "key"
	MinClaimsKey = 32
)

var secretResource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// ClaimsKey names the Secret with the key that seals claims; the zero value for none.
type ClaimsKey struct{ Namespace, Name string }

// claimsKeyPatience is how long the key is waited for before that is logged.
const claimsKeyPatience = 10 * time.Second

// readClaimsKey waits for the key before anything else is read, since it would not be known whether the claims count, and follows it until
// the context ends. A Secret that is re-created has another key, which seals from then on.
func readClaimsKey(ctx context.Context, c *Cluster) error {
	if c.ClaimsKey.Name == "" {
		return nil
	}
	read := make(chan struct{}, 1)
	secrets := informer.NewIn(c.Dynamic, secretResource, c.ClaimsKey.Namespace, c.ClaimsKey.Name,
		func(o *unstructured.Unstructured) any { return sealingKeyOf(o) })
	came := func(o any) {
		k, ok := o.(*sealingKey)
		switch {
		case !ok:
		case len(k.key) < MinClaimsKey:
			c.Log.Error(nil, "the Secret has no key that seals claims; delete it, so that the policy controller re-creates it",
				"secret", c.ClaimsKey.Name, "entry", KeyOfClaims, "bytes", len(k.key), "least", MinClaimsKey)
		default:
			c.Claims.Use(k.key)
			c.keyed.Store(true)
			select {
			case read <- struct{}{}:
			default:
			}
		}
	}
	// A deletion changes nothing: the key that was read is used until another one is read.
	if _, err := secrets.AddEventHandler(informer.Handler("key of claims", cache.ResourceEventHandlerFuncs{
		AddFunc: came, UpdateFunc: func(_, o any) { came(o) },
	})); err != nil {
		return fmt.Errorf("cannot watch the key of claims: %w", err)
	}
	go secrets.RunWithContext(ctx)
	late := time.After(claimsKeyPatience)
	for {
		select {
		case <-read:
			return nil
		case <-late:
			c.Log.Info("waiting: " + noClaimsKey(c).Error())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// noClaimsKey is why a process is not ready that has read no key; nil where it has, or needs none.
func noClaimsKey(c *Cluster) error {
	if c.ClaimsKey.Name == "" || c.keyed.Load() {
		return nil
	}
	return fmt.Errorf("the Secret %s/%s with the key that seals claims is not read yet; the policy controller creates it", c.ClaimsKey.Namespace, c.ClaimsKey.Name)
}

// sealingKey is what is kept of the Secret.
type sealingKey struct {
	informer.Meta
	key []byte
}

func sealingKeyOf(o *unstructured.Unstructured) *sealingKey {
	text, _, _ := unstructured.NestedString(o.Object, "data", KeyOfClaims)
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		key = nil // the API server stores no other
	}
	return &sealingKey{Meta: informer.MetaOf(o), key: key}
}
