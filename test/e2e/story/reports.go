package story

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/auditlog"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

var driftReceivers = schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "driftreceivers"}

// receiver of DriftReports that is away until startReceiver.
type receiver struct {
	address, certs string
	process        *controlplane.Process
}

// receiverArgs are the arguments of webhook and gate for a receiver that is away.
func (e *Env) receiverArgs() ([]string, error) {
	port, err := controlplane.FreePort()
	if err != nil {
		return nil, err
	}
	e.receiver = receiver{address: fmt.Sprintf("127.0.0.1:%d", port), certs: filepath.Join(e.Dir(), "receiver-certs")}
	if err := e.CA().ServingCert(e.receiver.certs); err != nil {
		return nil, err
	}
	return []string{"--drift-webhook-url=https://" + e.receiver.address + ",ca-file=" + filepath.Join(e.receiver.certs, "ca.crt"), "--cluster-name=story"}, nil
}

// Reported is played after all other chapters, with Options.Receiver (KR-10-14, KR-10-20).
var Reported = []Chapter{{"The receiver of reports was away all the time, and gets each of them once", reported}}

func reported(ctx context.Context, e *Env, t *Teller) error {
	created, err := e.createdDrifts()
	if err != nil {
		return err
	}
	// Of those that were deleted with the XR, the successors have to be written first: they are what a process leaves behind that dies.
	if err := until(ctx, "each drift to exist or to have a successor", func(ctx context.Context) error {
		list, err := e.drifts(ctx)
		if err != nil {
			return err
		}
		return missing(created, list)
	}); err != nil {
		return err
	}
	for _, p := range e.components { // the next leaders know nothing of when the last attempt failed
		p.Kill()
		if err := p.Restart(); err != nil {
			return err
		}
	}
	t.Types("", "kausality notify log --bind-address="+e.receiver.address)
	e.receiver.process, err = e.Serve(ctx, "receiver", exec.CommandContext(context.WithoutCancel(ctx), e.Bins[parts.Kausality], "notify", "log",
		"--cert-dir="+e.receiver.certs, "--bind-address="+e.receiver.address))
	if err != nil {
		return err
	}
	var list []v1alpha1.Drift
	var got map[string]int
	if err := until(ctx, "every drift to be reported", func(ctx context.Context) error {
		if list, err = e.drifts(ctx); err != nil {
			return err
		}
		if got, err = e.receiver.reports(); err != nil {
			return err
		}
		return owing(list, got)
	}); err != nil {
		return err
	}
	for report, n := range got {
		if n != 1 {
			return fmt.Errorf("%s was sent %d times", report, n)
		}
	}
	t.Right("%d reports about %d drifts, each once, Detected before Resolved", len(got), len(list))
	return e.receiversReady(ctx)
}

func (e *Env) receiversReady(ctx context.Context) error {
	return until(ctx, "the DriftReceivers to be ready", func(ctx context.Context) error {
		all, err := e.admin.Resource(driftReceivers).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		want := 2
		if e.Options.Slack {
			want++
		}
		if len(all.Items) != want {
			return fmt.Errorf("there are %d, want those of webhook and gate, and of Slack where it is started", len(all.Items))
		}
		for i := range all.Items {
			if err := controlplane.ConditionTrue(&all.Items[i], v1alpha1.ConditionReady); err != nil {
				return err
			}
		}
		return nil
	})
}

// createdDrifts are the names of all Drifts that were created, by the audit log.
func (e *Env) createdDrifts() (map[string]bool, error) {
	out := map[string]bool{}
	err := auditlog.NewTail(e.AuditLog()).Read(func(line []byte) error {
		event := struct {
			Verb, Stage string
			ObjectRef   struct{ APIGroup, Resource, Subresource, Name string }
			Response    struct{ Code int } `json:"responseStatus"`
		}{}
		if err := json.Unmarshal(line, &event); err != nil {
			return err
		}
		if o := event.ObjectRef; event.Verb == "create" && event.Stage == "ResponseComplete" && event.Response.Code == 201 &&
			o.APIGroup == v1alpha1.Group && o.Resource == Drifts.Resource && o.Subresource == "" {
			out[o.Name] = true
		}
		return nil
	})
	if err == nil && len(out) == 0 {
		err = errors.New("the audit log has no Drift")
	}
	return out, err
}

// missing is why not all Drifts that were created exist.
func missing(created map[string]bool, list []v1alpha1.Drift) error {
	exist := map[string]bool{}
	for _, d := range list {
		exist[d.Name] = true
	}
	for name := range created {
		if !exist[name] {
			return fmt.Errorf("drift %s was deleted before it was reported", name)
		}
	}
	return nil
}

// drifts of the cluster.
func (e *Env) drifts(ctx context.Context) (out []v1alpha1.Drift, err error) {
	list, err := e.admin.Resource(Drifts).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		d := v1alpha1.Drift{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &d); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// owing is why not all drifts are reported that were not silenced to their end.
func owing(list []v1alpha1.Drift, got map[string]int) error {
	known := 0
	for _, d := range list {
		if d.Status.Snoozed {
			continue
		}
		known++
		want := []v1alpha1.DriftPhase{v1alpha1.DriftDetected}
		if d.Status.BrokenGlass != nil {
			want = append(want, v1alpha1.DriftBrokenGlass)
		}
		if d.Status.Phase == v1alpha1.DriftResolved {
			want = append(want, v1alpha1.DriftResolved)
		}
		for _, phase := range want {
			if got[d.Name+" "+string(phase)] == 0 {
				return fmt.Errorf("it is not reported that Drift %s/%s is %s: its status is %+v", d.Namespace, d.Name, phase, d.Status)
			}
		}
	}
	if known == 0 {
		return errors.New("there is no drift, or all are snoozed")
	}
	return nil
}

// reports that were received, by the id of the Drift and the phase. Detected must come before Resolved.
func (r *receiver) reports() (map[string]int, error) {
	raw, err := os.ReadFile(r.process.Log())
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		one := v1alpha1.DriftReport{}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			return nil, fmt.Errorf("the receiver printed %q", line)
		}
		if one.Spec.Phase != v1alpha1.DriftDetected && out[one.Spec.ID+" "+string(v1alpha1.DriftDetected)] == 0 {
			return nil, fmt.Errorf("%s is %s, and was never Detected", one.Spec.ID, one.Spec.Phase)
		}
		out[one.Spec.ID+" "+string(one.Spec.Phase)]++
	}
	return out, nil
}
