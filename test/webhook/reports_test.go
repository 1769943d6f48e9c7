package webhook

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// backend is a `kausality notify log` process.
type backend struct {
	*controlplane.Process
	url string
}

func startBackend(t *testing.T, name string) *backend {
	t.Helper()
	port, err := controlplane.FreePort()
	require.NoError(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	p, err := the.Run(context.Background(), name, exec.Command(the.kausality, "notify", "log", "--cert-dir="+the.certs, "--bind-address="+address))
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	return &backend{Process: p, url: "https://" + address}
}

// reports that it printed, of an id ("" for all) and a phase.
func (b *backend) reports(t *testing.T, id string, phase v1alpha1.DriftPhase) (out []v1alpha1.DriftReport) {
	t.Helper()
	raw, err := os.ReadFile(b.Log())
	require.NoError(t, err)
	for line := range strings.Lines(string(raw)) {
		r := v1alpha1.DriftReport{}
		if json.Unmarshal([]byte(line), &r) != nil {
			t.Fatalf("%s printed %q", b.Name(), line)
		}
		if (id == "" || r.Spec.ID == id) && r.Spec.Phase == phase {
			out = append(out, r)
		}
	}
	return out
}

// observers are all backends of a test.
type observers []*backend

// reported waits until each backend got one report of an id.
func (o observers) reported(t *testing.T, id string, phase v1alpha1.DriftPhase) v1alpha1.DriftReport {
	t.Helper()
	var last v1alpha1.DriftReport
	for _, b := range o {
		wait.For(t, fmt.Sprintf("%s of %s at %s", phase, id, b.Name()), 30*time.Second, func(context.Context) error {
			got := b.reports(t, id, phase)
			if len(got) == 0 {
				return fmt.Errorf("nothing yet")
			}
			last = got[0]
			return nil
		})
	}
	return last
}

// never more than one report of each id and phase, for the ids given as
// occurring once.
func (o observers) once(t *testing.T, ids ...string) {
	t.Helper()
	for _, b := range o {
		for _, id := range ids {
			for _, phase := range []v1alpha1.DriftPhase{v1alpha1.DriftDetected, v1alpha1.DriftResolved} {
				if n := len(b.reports(t, id, phase)); n > 1 {
					t.Errorf("%s got %d reports that %s is %s", b.Name(), n, id, phase)
				}
			}
		}
	}
}

// TestReports: each backend gets one report of each occurrence, whichever replicas
// meet it, and one of its end under the same id. It runs alone: the leader of
// another fleet would resolve its Drifts without a report (KR-10-04, KR-10-05, KR-10-07).
func TestReports(t *testing.T) {
	all := observers{startBackend(t, "backend-a"), startBackend(t, "backend-b")}
	f := startFleet(t, "reports", options{replicas: 3, resources: []string{"/secrets"}, args: []string{
		"--drift-webhook-url=" + all[0].url, "--drift-webhook-url=" + all[1].url, "--drift-webhook-ca-file=" + the.certs + "/ca.crt", "--drift-webhook-timeout=2s",
		"--drift-webhook-objects",
	}})
	s := newFixture(t, f, "reports")
	s.secret("hunter2")
	s.settled("intent", "approved", "deleted", "late", "dry")
	goroutines := f.goroutines()

	ids := map[string]string{}
	for _, part := range []string{"intent", "approved", "deleted"} {
		ids[part] = s.eightRefusals(part)
	}
	for part, id := range ids {
		r := all.reported(t, id, v1alpha1.DriftDetected)
		if r.Spec.Child.Name != part || r.Spec.Parent.Name != "app" || r.Spec.Request == nil || r.Spec.Request.User != controller || r.Spec.SuggestedApproval == "" {
			t.Errorf("the report of %s has %+v", part, r.Spec)
		}
	}
	s.dryRun(all)
	s.redacted(all)
	late := s.retried(all)
	s.resolved(all, ids)
	all.once(t, ids["intent"], ids["approved"], ids["deleted"], late)
	f.proxy.spread(t)
	f.noLeak(goroutines)
}

// eightRefusals of the same change at once.
func (s *fixture) eightRefusals(part string) (id string) {
	s.t.Helper()
	got := together(parallel, func(int) error { return s.count(s.ctrl, part, 5) })
	if got.n != 0 {
		s.t.Fatalf("%d drifts passed", got.n)
	}
	for _, err := range got.refusals {
		id = mustRefuse(s.t, err, "Drift")
	}
	return id
}

// dryRun is refused the same and leaves nothing.
func (s *fixture) dryRun(all observers) {
	s.t.Helper()
	id := mustRefuse(s.t, s.count(s.ctrl, "dry", 6, metav1.DryRunAll), "Drift")
	// A later drift is reported everywhere: what came before it would be too.
	other := mustRefuse(s.t, s.count(s.ctrl, "dry", 7), "Drift")
	all.reported(s.t, other, v1alpha1.DriftDetected)
	for _, b := range all {
		if n := len(b.reports(s.t, id, v1alpha1.DriftDetected)); n > 0 {
			s.t.Errorf("%s got a report of a dry-run", b.Name())
		}
	}
	if _, err := s.hans.Resource(drifts).Namespace(s.ns).Get(s.t.Context(), id, metav1.GetOptions{}); err == nil {
		s.t.Errorf("a dry-run left a Drift")
	}
}

// secret child of the App.
func (s *fixture) secret(value string) {
	s.t.Helper()
	o := s.owned(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "password", "namespace": s.ns}, "stringData": map[string]any{"password": value},
	}})
	_, err := s.ctrl.Resource(secrets).Namespace(s.ns).Create(s.t.Context(), o, metav1.CreateOptions{})
	require.NoError(s.t, err)
}

// redacted: neither the old nor the new value of a Secret leaves the cluster, or is
// stored in the Drift.
func (s *fixture) redacted(all observers) {
	s.t.Helper()
	_, err := s.ctrl.Resource(secrets).Namespace(s.ns).Patch(s.t.Context(), "password", types.MergePatchType,
		[]byte(`{"stringData":{"password":"swordfish"}}`), metav1.PatchOptions{})
	id := mustRefuse(s.t, err, "Drift")
	report := all.reported(s.t, id, v1alpha1.DriftDetected)
	d, derr := s.hans.Resource(drifts).Namespace(s.ns).Get(s.t.Context(), id, metav1.GetOptions{})
	require.NoError(s.t, derr)
	raw, jerr := json.Marshal([]any{report, d.Object, err.Error()})
	require.NoError(s.t, jerr)
	for _, secret := range []string{"hunter2", "swordfish"} {
		for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))} {
			if strings.Contains(string(raw), form) {
				s.t.Errorf("%s left the Secret: %s", form, raw)
			}
		}
	}
	if len(report.Spec.Difference) == 0 || !strings.Contains(string(report.Spec.NewObject.Raw), "password") {
		s.t.Errorf("the report does not name the field that changed: %s", raw)
	}
}

// retried while a backend is down; the other one does not wait for it.
func (s *fixture) retried(all observers) (id string) {
	s.t.Helper()
	all[1].Kill()
	id = s.eightRefusals("late")
	all[:1].reported(s.t, id, v1alpha1.DriftDetected)
	require.NoError(s.t, all[1].Restart())
	all[1:].reported(s.t, id, v1alpha1.DriftDetected)
	return id
}

// resolved under the same id: by an approval that is used, by the child's
// deletion, and by a new intent.
func (s *fixture) resolved(all observers, ids map[string]string) {
	s.t.Helper()
	s.annotate(map[string]any{v1alpha1.AnnotationKeyApprovePrefix + ids["approved"]: "once"})
	require.NoError(s.t, s.count(s.ctrl, "approved", 5))
	all.resolution(s.t, ids["approved"], "approved")
	require.NoError(s.t, s.of(s.hans).Delete(s.t.Context(), "deleted", metav1.DeleteOptions{}))
	all.resolution(s.t, ids["deleted"], "deleted")
	s.intent(2)
	s.observe() // it is carried out without the difference (KR-05-65)
	all.resolution(s.t, ids["intent"], "intent")
}

func (o observers) resolution(t *testing.T, id, why string) {
	t.Helper()
	r := o.reported(t, id, v1alpha1.DriftResolved)
	if !strings.Contains(r.Spec.Resolution, why) {
		t.Errorf("%s was resolved because %q, want something with %q", id, r.Spec.Resolution, why)
	}
}

func (f *fleet) goroutines() (out []float64) {
	for _, r := range f.replicas {
		out = append(out, r.metric(f.t, "go_goroutines"))
	}
	return out
}

// noLeak: the replicas come back to about as many goroutines as they had.
func (f *fleet) noLeak(before []float64) {
	f.t.Helper()
	const watches = 40 // kinds that were not watched before, and idle connections
	wait.For(f.t, "goroutines to end", wait.Patience, func(context.Context) error {
		for i, now := range f.goroutines() {
			if now > before[i]+watches {
				return fmt.Errorf("replica %d has %.0f goroutines, had %.0f", i, now, before[i])
			}
		}
		return nil
	})
}
