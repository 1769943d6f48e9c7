package atrest

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// startWebhooks serves the webhooks of the odd kinds. It returns their URL, and the CA in base64.
func startWebhooks(t *testing.T, e *story.Env) (url, ca string) {
	t.Helper()
	certs := filepath.Join(e.Dir(), "odd-webhooks")
	require.NoError(t, e.CA().ServingCert(certs))
	pair, err := tls.LoadX509KeyPair(filepath.Join(certs, "tls.crt"), filepath.Join(certs, "tls.key"))
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("/convert", convert)
	mux.HandleFunc("/mutate", mutate)
	server := httptest.NewUnstartedServer(mux)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, base64.StdEncoding.EncodeToString(e.CA().Bundle())
}

// convert between v1, which has a size, and v2, which has gigabytes.
func convert(w http.ResponseWriter, r *http.Request) {
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		o := map[string]any{}
		if err := json.Unmarshal(raw.Raw, &o); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		o["apiVersion"] = review.Request.DesiredAPIVersion
		if spec, ok := o["spec"].(map[string]any); ok {
			from, to := "size", "gigabytes"
			if strings.HasSuffix(review.Request.DesiredAPIVersion, "/v1") {
				from, to = to, from
			}
			if value, ok := spec[from]; ok {
				delete(spec, from)
				spec[to] = value
			}
		}
		converted, _ := json.Marshal(o) //nolint:errchkjson // It was JSON.
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Raw: converted})
	}
	review.Request, review.Response = nil, response
	answer(w, review)
}

// mutate the spec of an object: texts of host are in lower case, a zone is set, and of a password its hash is kept alone.
func mutate(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o := map[string]any{}
	if err := json.Unmarshal(review.Request.Object.Raw, &o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if spec, ok := o["spec"].(map[string]any); ok && odden(spec, strings.HasPrefix(review.Request.Kind.Kind, "Completed")) {
		patch, _ := json.Marshal([]any{map[string]any{"op": "replace", "path": "/spec", "value": spec}}) //nolint:errchkjson // It was JSON.
		form := admissionv1.PatchTypeJSONPatch
		response.Patch, response.PatchType = patch, &form
	}
	review.Request, review.Response = nil, response
	answer(w, review)
}

// odden fields, also those below, and report whether any changed.
func odden(fields map[string]any, zoned bool) (changed bool) {
	if below, ok := fields["below"].(map[string]any); ok {
		return odden(below, zoned)
	}
	if host, ok := fields["host"].(string); ok && host != strings.ToLower(host) {
		fields["host"], changed = strings.ToLower(host), true
	}
	if _, ok := fields["zone"]; !ok && zoned {
		fields["zone"], changed = "a", true
	}
	if password, ok := fields["password"].(string); ok {
		sum := sha256.Sum256([]byte(password))
		delete(fields, "password")
		fields["hash"], changed = hex.EncodeToString(sum[:4]), true
	}
	return changed
}

func answer(w http.ResponseWriter, review any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // a client that is gone needs no answer
}
