package adversary

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// forgery is a text that only forged reviews of what is not stored have: it must not
// appear in any object. Who sends a review of what is stored, nothing but a client
// certificate shows.
const forgery = "forged-by-mallory"

// stranger is a client without a certificate.
var stranger = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
	TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: together, //nolint:gosec // An adversary checks no certificate.
}}

// forge a review and send it to the webhook, as any client that reaches its port.
func (r *run) forge(ctx context.Context) {
	t := r.target()
	stored, err := r.of(mallory, t.resource).Get(ctx, t.name, metav1.GetOptions{})
	if err != nil {
		r.note("forge: %s", result(err))
		return
	}
	changed := stored.DeepCopy()
	changed.SetGeneration(stored.GetGeneration() + 1)
	user, operation, sub := pick(r.rng, provider, crossplaneUser, collector, story.Hans), "UPDATE", ""
	switch r.rng.IntN(6) {
	case 0: // a status, to be recorded as its controller
		sub = "status"
		changed.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Synced", "status": "True", "observedGeneration": 99}}}
	case 1: // drift of a state that is not stored, to be reported
		stored.SetResourceVersion("1")
		stored.Object["spec"] = map[string]any{"size": 2, "forProvider": map[string]any{"size": 2}}
		changed.Object["spec"] = map[string]any{"size": 1, "forProvider": map[string]any{"size": 1, "engine": forgery}}
	case 2: // a creation without a name, which would use an approval up
		operation = "CREATE"
		changed.SetName("")
		changed.SetUID("")
		changed.SetGenerateName("forged-")
	case 3: // of an object that does not exist
		operation = "DELETE"
		stored.SetName(forgery)
		stored.SetUID("00000000-0000-0000-0000-00000000f06f")
		changed = stored
	case 4: // as deep as an API server takes
		var deep any = "x"
		for range 9000 {
			deep = []any{deep}
		}
		changed.Object["spec"] = map[string]any{"deep": deep}
	default: // the parent that it names is another
		changed.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.org/v1alpha1", Kind: "XDatabase", Name: composite, UID: stored.GetUID(),
			Controller: new(true)}})
	}
	code, answer := r.post(ctx, review(t, operation, sub, user, stored, changed))
	r.note("forge %s %s %s %s by %s: %d %.80s", operation, t.resource.Resource, t.name, sub, user, code, answer)
}

const (
	provider       = "system:serviceaccount:crossplane-system:provider-cloud"
	crossplaneUser = "system:serviceaccount:crossplane-system:crossplane"
	collector      = "system:serviceaccount:kube-system:generic-garbage-collector"
)

func review(t target, operation, subresource, user string, before, after *unstructured.Unstructured) map[string]any {
	g := t.resource
	request := map[string]any{
		"uid":      "00000000-0000-0000-0000-00000000f06e",
		"kind":     map[string]any{"group": g.Group, "version": g.Version, "kind": before.GetKind()},
		"resource": map[string]any{"group": g.Group, "version": g.Version, "resource": g.Resource}, "subResource": subresource,
		"name": after.GetName(), "namespace": before.GetNamespace(), "operation": operation,
		"userInfo": map[string]any{"username": user, "groups": []any{"system:authenticated", "system:masters"}},
		"object":   after.Object, "oldObject": before.Object, "options": map[string]any{"fieldManager": "provider"},
	}
	switch operation {
	case "CREATE":
		delete(request, "oldObject")
	case "DELETE":
		delete(request, "object")
	}
	return map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
}

// post a review to a random path of the webhook.
func (r *run) post(ctx context.Context, body map[string]any) (code int, answer string) {
	raw, err := json.Marshal(body)
	if err != nil {
		return 0, err.Error()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, the.WebhookURL()+pick(r.rng, "/mutate", "/mutate", "/status", "/policies"), bytes.NewReader(raw))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := stranger.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close() //nolint:errcheck // The body was only read.
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, fmt.Sprint(string(text), err)
}
