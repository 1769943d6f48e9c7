package scope

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// AnnotationKeyRemoval on the webhook configuration is since when Kausality is
// being removed, RFC 3339 in UTC. While it exists, everything is in mode log,
// whatever objects, Namespaces and policies declare: nothing is masked any more, what
// is masked is restored, and an outage blocks no request. Removing it
// cancels the removal of Kausality.
const AnnotationKeyRemoval = v1alpha1.AnnotationKeyRemoval

// Removing reports whether a webhook configuration is marked for the removal of
// Kausality (KR-12-08).
func Removing(configuration metav1.Object) bool {
	_, ok := configuration.GetAnnotations()[AnnotationKeyRemoval]
	return ok
}

// Removing reports whether Kausality is being removed.
func (s *Scope) Removing() bool { return stateOf(s).removing }

// OnRemoval calls f when the removal of Kausality began, or was given up. Call it
// before Run.
func (s *Scope) OnRemoval(f func()) { s.onRemoval = append(s.onRemoval, f) }

// MarkRemoval marks the webhook configuration, and reports whether it was marked
// already. If it does not exist, an empty configuration carries the mark, since a gate
// continues to mask when the configuration is deleted.
func MarkRemoval(ctx context.Context, client dynamic.Interface, now time.Time) (already bool, err error) {
	r := client.Resource(Configurations)
	stored, err := r.Get(ctx, ConfigurationName, metav1.GetOptions{})
	if err == nil && Removing(stored) {
		return true, nil
	}
	if err != nil && !kerrors.IsNotFound(err) {
		return false, fmt.Errorf("cannot read the webhook configuration %s: %w", ConfigurationName, err)
	}
	mark := &unstructured.Unstructured{}
	mark.SetGroupVersionKind(Configurations.GroupVersion().WithKind("MutatingWebhookConfiguration"))
	mark.SetName(ConfigurationName)
	mark.SetAnnotations(map[string]string{AnnotationKeyRemoval: now.UTC().Format(time.RFC3339)})
	raw, err := json.Marshal(mark.Object)
	if err != nil {
		return false, fmt.Errorf("cannot encode the webhook configuration: %w", err)
	}
	if _, err := r.Patch(ctx, ConfigurationName, types.ApplyPatchType, raw,
		metav1.PatchOptions{FieldManager: v1alpha1.ManagerRemoval, Force: new(true)}); err != nil {
		return false, fmt.Errorf("cannot mark the webhook configuration %s for the removal of Kausality: %w", ConfigurationName, err)
	}
	return false, nil
}

// ForgetRemoval removes what MarkRemoval created: a configuration with a mark and
// no webhooks. One with webhooks keeps its mark, and goes with the installation.
func ForgetRemoval(ctx context.Context, client dynamic.Interface) error {
	r := client.Resource(Configurations)
	stored, err := r.Get(ctx, ConfigurationName, metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read the webhook configuration %s: %w", ConfigurationName, err)
	}
	if hooks, _, err := unstructured.NestedSlice(stored.Object, "webhooks"); err != nil || len(hooks) > 0 {
		return err
	}
	err = r.Delete(ctx, ConfigurationName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: new(stored.GetResourceVersion())}})
	if err != nil && !kerrors.IsNotFound(err) && !kerrors.IsConflict(err) { // it has webhooks now
		return fmt.Errorf("cannot remove the webhook configuration %s: %w", ConfigurationName, err)
	}
	return nil
}
