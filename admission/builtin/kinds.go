package builtin

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// defaulted fields get a value where they are written as zero. They are no pointers, so that zero is not set.
var defaulted = map[string]bool{
	"allocationMode": true, "apiGroup": true, "clusterIP": true, "concurrencyPolicy": true, "count": true,
	"dnsPolicy": true, "failureThreshold": true, "handSize": true, "healthCheckNodePort": true,
	"hostPort": true, "imagePullPolicy": true, "nodePort": true, "periodSeconds": true,
	"persistentVolumeReclaimPolicy": true, "podManagementPolicy": true, "protocol": true,
	"queueLengthLimit": true, "queues": true, "restartPolicy": true, "schedulerName": true, "scheme": true,
	"serviceAccount": true, "serviceAccountName": true, "sessionAffinity": true, "successThreshold": true,
	"targetPort": true, "terminationMessagePath": true, "terminationMessagePolicy": true,
	"timeoutSeconds": true, "type": true, "volumeName": true,
}

// assigned metadata is set by the API server. kubectl's copy of the applied manifest is not part of the manifest
// either.
var assigned = []string{"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields",
	"resourceVersion", "selfLink", "uid"}

// prepared returns a manifest without the fields that are never stored as they are written, in the form in which it
// is stored.
func (a aligner) prepared(want, have map[string]any) map[string]any {
	out := maps.Clone(want)
	delete(out, "status")
	if metadata, ok := written(want); ok {
		out["metadata"] = metadata
	}
	switch a.kind {
	case "Secret":
		prepareSecret(out, have)
	case "Endpoints":
		if sameEndpoints(out["subsets"], have["subsets"]) {
			out["subsets"] = have["subsets"]
		}
	case "Service":
		if spec, ok := out["spec"].(map[string]any); ok && spec["type"] == "ExternalName" {
			spec = maps.Clone(spec)
			delete(spec, "internalTrafficPolicy") // it is removed
			out["spec"] = spec
		}
	case "ClusterRole":
		if rules, _ := out["rules"].([]any); len(rules) == 0 && out["aggregationRule"] != nil {
			out["rules"] = have["rules"] // a controller writes them
		}
	}
	return out
}

// written returns the metadata of a manifest without the assigned fields; false where it has no metadata.
func written(manifest map[string]any) (metadata map[string]any, ok bool) {
	if metadata, ok = manifest["metadata"].(map[string]any); !ok {
		return nil, false
	}
	metadata = maps.Clone(metadata)
	for _, k := range assigned {
		delete(metadata, k)
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		annotations = maps.Clone(annotations)
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		metadata["annotations"] = annotations
	}
	return metadata, true
}

// prepareSecret makes data of stringData, which takes precedence. A provider that redacts
// the values, as provider-kubernetes with --sanitize-secrets, reports none.
func prepareSecret(out, have map[string]any) {
	if observed, ok := have["data"].(map[string]any); ok && len(observed) == 1 && has(observed, "redacted") && zero(observed["redacted"]) {
		delete(out, "data")
		delete(out, "stringData")
		return
	}
	text, _ := out["stringData"].(map[string]any)
	delete(out, "stringData")
	if len(text) == 0 {
		return
	}
	data, _ := out["data"].(map[string]any)
	if data = maps.Clone(data); data == nil {
		data = map[string]any{}
	}
	for k, v := range text {
		if s, ok := v.(string); ok {
			data[k] = base64.StdEncoding.EncodeToString([]byte(s))
		} else if v == nil {
			data[k] = ""
		}
	}
	out["data"] = data
}

func has(m map[string]any, key string) bool { _, ok := m[key]; return ok }

// sameEndpoints reports whether two lists of subsets are the same: the API server groups them in its own way.
func sameEndpoints(a, b any) bool {
	x, ok := endpoints(a)
	y, both := endpoints(b)
	return ok && both && maps.Equal(x, y)
}

// endpoints returns the pairs of an address and a port; false for a value of another shape.
func endpoints(v any) (out map[string]bool, ok bool) {
	list, ok := v.([]any)
	if !ok {
		return nil, false
	}
	out = map[string]bool{}
	for _, e := range list {
		subset, ok := e.(map[string]any)
		if !ok {
			return nil, false
		}
		for _, key := range []string{"addresses", "notReadyAddresses"} {
			addresses, _ := subset[key].([]any) // none
			ports, _ := subset["ports"].([]any)
			for _, address := range addresses {
				for _, port := range ports {
					out[key+" "+text(address)+" "+text(tcp(port))] = true
				}
				out[key+" "+text(address)+" "+strconv.FormatBool(len(ports) > 0)] = true
			}
		}
	}
	return out, true
}

// tcp returns a port with its default protocol.
func tcp(port any) any {
	p, ok := port.(map[string]any)
	if !ok || p["protocol"] != nil && p["protocol"] != "" {
		return port
	}
	p = maps.Clone(p)
	p["protocol"] = "TCP"
	return p
}

// text returns the JSON of a value, which always marshals.
func text(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(raw)
}
