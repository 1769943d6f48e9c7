package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// PathLater is where a Receiver serves the later webhook.
const PathLater = "/later"

// LaterLabel on an object asks the later webhook; the annotation of the same name
// is the JSON patch that it answers.
const LaterLabel = "conformance.kausality.io/later"

// laterWebhook is a second mutating webhook, asked after the implementation's:
// configurations go by their names. It changes objects as they ask for, so that
// the implementation is invoked again.
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

// answerLater one review.
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
		return nil, fmt.Errorf("this is no AdmissionReview: %w", err)
	}
	if review.Request == nil {
		return nil, errors.New("this AdmissionReview has no request")
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
