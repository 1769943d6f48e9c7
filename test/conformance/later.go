package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// PathLater is where a Receiver serves the later webhook.
const PathLater = "/later"

// LaterLabel on an object selects it for the later webhook; the annotation of the
// same name is the JSON patch that the webhook returns.
const LaterLabel = "conformance.kausality.io/later"

// laterWebhook is a second mutating webhook that is called after the
// implementation's, since configurations are ordered by name. It changes objects
// as their annotation describes, so that the implementation is called again.
func laterWebhook(url string, ca []byte) map[string]any {
	return map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
		"metadata": map[string]any{"name": "zzz-conformance-later"},
		"webhooks": []any{map[string]any{
			"name": "later.conformance.example.org", "admissionReviewVersions": []any{"v1"},
			"sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": 15,
			"clientConfig":   map[string]any{"url": url + PathLater, "caBundle": ca},
			"objectSelector": map[string]any{"matchExpressions": []any{map[string]any{"key": LaterLabel, "operator": "Exists"}}},
			"rules": []any{map[string]any{"apiGroups": []any{"conformance.example.org"}, "apiVersions": []any{"*"},
				"resources": []any{"*"}, "operations": []any{"CREATE", "UPDATE"}}},
		}},
	}
}

// answerLater answers one review of the later webhook.
func answerLater(raw []byte) (map[string]any, error) {
	var review struct {
		Request *struct {
			UID    string `json:"uid"`
			Object struct {
				Metadata struct {
					Annotations map[string]string `json:"annotations"`
				} `json:"metadata"`
			} `json:"object"`
		} `json:"request"`
	}
	if err := json.Unmarshal(raw, &review); err != nil {
		return nil, fmt.Errorf("cannot read the AdmissionReview: %w", err)
	}
	if review.Request == nil {
		return nil, errors.New("the AdmissionReview has no request")
	}
	resp := map[string]any{"uid": review.Request.UID, "allowed": true}
	if patch := review.Request.Object.Metadata.Annotations[LaterLabel]; patch != "" {
		resp["patchType"], resp["patch"] = "JSONPatch", []byte(patch)
	}
	return map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": resp}, nil
}

func serveLater(w http.ResponseWriter, raw []byte) {
	answer, err := answerLater(raw)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		fmt.Println("cannot answer a review:", err)
	}
}
