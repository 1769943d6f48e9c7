package manifests

import (
	"bytes"
	"fmt"
	"io/fs"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/package/crds"
)

const separator = "---\n"

// The CRD of Kausality policies reports that Crossplane may read them only where the role for that comes with
// it: a fetch that is forbidden would fail the pipeline (KR-09-08). The chart's templates/crds.yaml does the same.
const (
	policyCRD = "\n  name: " + v1alpha1.ResourceKausalities + "." + v1alpha1.Group + "\n"
	readable  = "\n    " + v1alpha1.AnnotationKeyCrossplaneReads + ": " + v1alpha1.CrossplaneReadsAll
)

// Render the manifests as YAML documents, in an order in which `kubectl apply
// -f -` can take them: what others refer to first, the webhook last. The same
// Options give the same bytes. The error is one line that names the wrong flag
// (KR-12-01).
func Render(o Options) ([]byte, error) {
	var out bytes.Buffer
	if err := writeCRDs(&out, !o.CRDsOnly); err != nil {
		return nil, err
	}
	switch {
	case o.CRDsOnly:
		return out.Bytes(), nil
	case o.FunctionOnly:
		err := write(&out, crossplaneRole())
		return out.Bytes(), err
	}
	in, err := o.parse()
	if err != nil {
		return nil, err
	}
	for _, object := range objects(in) {
		if err := write(&out, object); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// objects in the order in which they are applied: Namespace and access first, the
// webhook configuration last, since requests wait for it from then on.
func objects(in *input) []any {
	out := []any{
		namespace(), account(componentWebhook), account(componentGate),
		webhookRole(in), gateRole(in), crossplaneRole(), leasesRole(), heartbeatRole(), viewerRole(), approverRole(),
		clusterRoleBinding(componentWebhook, in.users), clusterRoleBinding(componentGate, in.users), leasesBinding(in.users), heartbeatBinding(in.users),
		orphanPolicy(in), everywhere(orphanProtection),
		protectionPolicy(in), protectionBinding(annotationProtection, in.entries[0]),
		namespaceModePolicy(), everywhere(namespaceMode), driftPolicy(in.users), everywhere(driftProtection), rulePolicy(in.users), ruleBinding(),
	}
	if !in.embedded {
		out = append(out, policyConfiguration(in), rolloutConfiguration(in))
	}
	return append(out, webhookConfiguration(in))
}

// writeCRDs as they are embedded in the program. withRole adds what reports that Crossplane may read them.
func writeCRDs(out *bytes.Buffer, withRole bool) error {
	names, err := fs.Glob(crds.FS, "*.yaml")
	if err != nil {
		return fmt.Errorf("cannot list the embedded CRDs: %w", err)
	}
	for _, name := range names {
		raw, err := crds.FS.ReadFile(name)
		if err != nil {
			return fmt.Errorf("cannot read the embedded CRD %s: %w", name, err)
		}
		if withRole {
			raw = bytes.Replace(raw, []byte(policyCRD), []byte(readable+policyCRD), 1)
		}
		out.WriteString(separator)
		out.Write(bytes.TrimPrefix(raw, []byte(separator)))
	}
	return nil
}

// write one object, without the empty status that Go's zero values leave.
func write(out *bytes.Buffer, object any) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("cannot convert %T: %w", object, err)
	}
	delete(content, "status")
	if rules, ok := content["rules"]; ok && rules == nil {
		delete(content, "rules") // of an aggregated role: the API server fills them
	}
	raw, err := yaml.Marshal(content)
	if err != nil {
		return fmt.Errorf("cannot write %T: %w", object, err)
	}
	out.WriteString(separator)
	out.Write(raw)
	return nil
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": "kausality"}}
}
