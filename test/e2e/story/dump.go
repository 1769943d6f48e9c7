package story

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

var events = schema.GroupVersionResource{Version: "v1", Resource: "events"}

const (
	// dumpWithin bounds the reads of Dump.
	dumpWithin = 20 * time.Second
	// dumpLines is the number of lines of each log that Dump writes.
	dumpLines = 25
)

// Dump writes what explains a failure: composites, their resources, Drifts and the end of the logs. A test
// that fails on another machine leaves nothing else.
func (e *Env) Dump(ctx context.Context, out io.Writer) {
	if e.admin == nil || e.ControlPlane == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, dumpWithin)
	defer cancel()
	for _, r := range []schema.GroupVersionResource{XDatabases, Databases, Settings, Drifts, events} {
		list, err := e.admin.Resource(r).List(ctx, metav1.ListOptions{})
		if err != nil {
			fmt.Fprintf(out, "--- %s: %v\n", r.Resource, err)
			continue
		}
		for i := range list.Items {
			fmt.Fprintf(out, "--- %s\n%s", r.Resource, brief(&list.Items[i]))
		}
	}
	logs, _ := filepath.Glob(filepath.Join(e.Dir(), "logs", "*.log"))
	for _, path := range logs {
		switch strings.TrimSuffix(filepath.Base(path), ".log") {
		case "audit", "etcd", "kube-apiserver", "kube-controller-manager":
			continue
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintf(out, "--- %s: %v\n", path, err)
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
		fmt.Fprintf(out, "--- %s\n%s\n", filepath.Base(path), strings.Join(lines[max(0, len(lines)-dumpLines):], "\n"))
	}
}

// brief form of an object: without the fields that each manager owns.
func brief(o *unstructured.Unstructured) []byte {
	fields := o.GetManagedFields()
	for i := range fields {
		fields[i].FieldsV1 = nil
	}
	o.SetManagedFields(fields)
	raw, err := yaml.Marshal(o.Object)
	if err != nil {
		return []byte(err.Error())
	}
	return raw
}
