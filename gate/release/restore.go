package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	authenticationv1 "k8s.io/api/authentication/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/gate/systems"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
	"github.com/kausality-io/function-kausality/internal/drift"
)

// maxRestoreTries bounds the write conflicts of one object.
const maxRestoreTries = 5

// restorer restores one object after the other.
type restorer struct {
	Options
	client dynamic.Interface
	// direct reads the holders of approvals; nil until it is needed.
	direct *cluster.Direct
}

// restore the author's value, unless the object is not masked any more. The
// approvals that opened the gate are finished first: after a crash in between the
// gate is open and closes like any other.
func (r *restorer) restore(ctx context.Context, m maskedObject) (restored bool, err error) {
	for range maxRestoreTries {
		o, err := m.of(r.client).Get(ctx, m.name, metav1.GetOptions{})
		if kerrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("cannot read %s: %w", m, err)
		}
		now, ok := maskOf(m.resource, m.system, o)
		if !ok {
			return false, nil
		}
		own, unspent := r.spend(ctx, o)
		if kerrors.IsConflict(unspent) {
			continue
		}
		if unspent != nil {
			unspent = fmt.Errorf("the gate of %s was open by an approval that counts as open still: %w", m, unspent)
		}
		after, err := now.write(ctx, m.of(r.client), o, own)
		switch {
		case err == nil:
			if _, still := maskOf(m.resource, m.system, after); still {
				return false, fmt.Errorf("cannot restore %s: the webhook masks it again; run webhook and gate with --default-mode=log, or not at "+
					"all, or run this as the gate's own user", m)
			}
			return true, unspent
		case kerrors.IsNotFound(err):
			return false, nil
		case !kerrors.IsConflict(err):
			return false, fmt.Errorf("cannot restore %s: %w", m, err)
		}
	}
	return false, fmt.Errorf("cannot restore %s: it changes all the time; try again", m)
}

// of returns the object's resource client.
func (m maskedObject) of(c dynamic.Interface) dynamic.ResourceInterface {
	return informer.ResourceOf(c, m.resource, m.namespace != "", m.namespace)
}

// spend the approvals that opened the gate of an object. own are the edits of the
// object's own annotations, which go into the write that restores it.
func (r *restorer) spend(ctx context.Context, o *unstructured.Unstructured) (own map[string]*string, err error) {
	if mask.ParseGate(o.GetAnnotations()).Claim == "" {
		return nil, nil
	}
	if r.direct == nil {
		if r.direct, err = cluster.NewDirect(ctx, r.Config); err != nil {
			return nil, fmt.Errorf("cannot make a client: %w", err)
		}
	}
	ref := parent.RefOf(o)
	obj, err := r.direct.States.Get(ctx, ref, true)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", identity.Describe(ref), err)
	}
	holders, err := r.direct.Holders(ctx, obj, true) // the object itself first, then as far up as it can be read
	unread := errors.Join(err, r.direct.Failed())
	for _, h := range holders {
		edits := gating.SpendOpening(obj.State, h.State, clock.Now())
		if h.State.UID == o.GetUID() {
			own = edits
			continue
		}
		if len(edits) == 0 {
			continue
		}
		err := r.direct.States.Apply(ctx, h.State.Ref, states.Patch{Manager: v1alpha1.ManagerGate, ResourceVersion: h.State.ResourceVersion, Annotations: edits})
		if err != nil && !kerrors.IsNotFound(err) {
			return own, err
		}
	}
	return own, unread
}

// runsAsGate reports whether this runs as the gate's own user, whose access
// follows what is guarded.
func (o Options) runsAsGate(ctx context.Context) bool {
	c, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return false
	}
	who, err := c.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	return err == nil && who.Status.UserInfo.Username == "system:serviceaccount:"+drift.HomeNamespace+":"+v1alpha1.ManagerGate
}

// write the author's value to an object as it was read, together with other edits
// of its annotations; a nil value removes an annotation.
func (m maskedObject) write(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured,
	edits map[string]*string) (*unstructured.Unstructured, error) {
	if m.system == nil {
		annotations := map[string]*string{v1alpha1.AnnotationKeyManagementPolicies: nil, v1alpha1.AnnotationKeyGate: nil}
		maps.Copy(annotations, edits)
		return states.Patch{Manager: v1alpha1.ManagerGate, ManagementPolicies: m.author, Annotations: annotations}.ApplyTo(ctx, r, o)
	}
	raw, err := json.Marshal(systems.Patch(o, m.system, gating.Decision{Action: gating.ActionRestore, Edits: edits}))
	if err != nil {
		return nil, fmt.Errorf("cannot encode patch: %w", err)
	}
	return r.Patch(ctx, m.name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: v1alpha1.ManagerGate})
}
