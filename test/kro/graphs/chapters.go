package graphs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// namespace and name of the shop of the story.
const (
	namespace = "default"
	name      = "db"
)

// Chapters of the story of Hans's shop, which Anna's graph defines.
func (e *Env) Chapters() []story.Chapter {
	s := &shop{Env: e}
	play := func(f func(context.Context, *story.Teller) error) func(context.Context, *story.Env, *story.Teller) error {
		return func(ctx context.Context, _ *story.Env, t *story.Teller) error { return f(ctx, t) }
	}
	return []story.Chapter{
		{Title: "anna offers shops, by a graph of kro", Play: play(s.offered)},
		{Title: "hans creates a shop", Play: play(s.created)},
		{Title: "hans changes it", Play: play(s.changed)},
		{Title: "anna edits the graph: what that changes of hans's shop is held", Play: play(s.held)},
		{Title: "hans approves it, with exactly the command that is shown", Play: play(s.approved)},
		{Title: "anna drops the Service from the graph: it is not deleted until hans approves that", Play: play(s.dropped)},
		{Title: "hans deletes his shop, and all that is below it", Play: play(s.deleted)},
	}
}

// shop is the state of the story.
type shop struct {
	*Env
	// command that approves what is held.
	command string
}

// sh runs a command as a user, as it is typed in a shell, in the directory of the examples. It returns what it printed.
func (e *Env) sh(ctx context.Context, t *story.Teller, user, command string) (string, error) {
	t.Types(user, command)
	kubeconfig, err := e.Kubeconfig(strings.SplitN(user, "@", 2)[0], user, "system:masters")
	if err != nil {
		return "", err
	}
	root, err := parts.Root()
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	path := filepath.Dir(e.Bins[parts.Kubectl]) + ":" + filepath.Dir(e.Bins[parts.KubectlKausality]) + ":" + filepath.Dir(e.Bins[parts.Kausality]) +
		":" + os.Getenv("PATH")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+path)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, &out, &out
	err = cmd.Run()
	text := strings.TrimSpace(out.String())
	if err != nil {
		return text, fmt.Errorf("%s: %w: %s", command, err, text)
	}
	return text, nil
}

func (s *shop) offered(ctx context.Context, t *story.Teller) error {
	if _, err := s.sh(ctx, t, Anna, "kubectl apply -f examples/kro/graph.yaml"); err != nil {
		return err
	}
	c, err := s.As(Anna)
	if err != nil {
		return err
	}
	if err := until(ctx, "the graph to be active", func(ctx context.Context) error {
		o, err := c.Resource(Graphs).Get(ctx, "shop", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return CarriedOut(o, o.GetGeneration())
	}); err != nil {
		return err
	}
	t.Right("kro serves the kind Shop; webhook and gate enforce for graphs, shops, ConfigMaps and Services")
	derive := "kausality kro derive -f examples/kro/graph.yaml --service-account=kro-system/kro | kubectl apply -f -"
	if _, err := s.sh(ctx, t, Anna, derive); err != nil {
		return err
	}
	t.Right("a change of a shop lets kro change what the graph makes of it, and nothing else")
	return nil
}

func (s *shop) created(ctx context.Context, t *story.Teller) error {
	if _, err := s.sh(ctx, t, Hans, "kubectl apply -f examples/kro/shop.yaml"); err != nil {
		return err
	}
	if err := s.settled(ctx, 1); err != nil {
		return err
	}
	t.Right("kro created a ConfigMap and a Service, to which it gives no owner")
	return s.traced(ctx, t)
}

func (s *shop) changed(ctx context.Context, t *story.Teller) error {
	if _, err := s.sh(ctx, t, Hans, `kubectl patch shop db --type=merge -p '{"spec":{"message":"bye"}}'`); err != nil {
		return err
	}
	if err := s.data(ctx, "message", "bye"); err != nil {
		return err
	}
	if err := s.settled(ctx, 2); err != nil {
		return err
	}
	t.Right("kro carried it out: he requested it")
	return s.traced(ctx, t)
}

// traced shows the trace of the ConfigMap, which leads back to Hans.
func (s *shop) traced(ctx context.Context, t *story.Teller) error {
	out, err := s.sh(ctx, t, Hans, "kubectl kausality trace configmap db")
	if err != nil {
		return err
	}
	t.Reports("%s", out)
	if !strings.Contains(out, Hans) {
		return fmt.Errorf("the trace does not lead to %s", Hans)
	}
	t.Right("its trace leads back to hans")
	return nil
}

func (s *shop) held(ctx context.Context, t *story.Teller) error {
	before, err := s.get(ctx, ConfigMaps)
	if err != nil {
		return err
	}
	if _, err := s.sh(ctx, t, Anna, "sed s/silver/gold/ examples/kro/graph.yaml | kubectl apply -f -"); err != nil {
		return err
	}
	var d *unstructured.Unstructured
	if err := until(ctx, "the update to be put back", func(ctx context.Context) (err error) {
		if d, err = s.drift(ctx, "UPDATE"); err != nil {
			return err
		}
		if separated, _, _ := unstructured.NestedBool(d.Object, "status", "separated"); !separated {
			return fmt.Errorf("%w: %v", errState, d.Object["status"])
		}
		return nil
	}); err != nil {
		return err
	}
	after, err := s.get(ctx, ConfigMaps)
	if err != nil {
		return err
	}
	if after.GetResourceVersion() != before.GetResourceVersion() {
		return fmt.Errorf("the ConfigMap was written: resourceVersion %s, before %s", after.GetResourceVersion(), before.GetResourceVersion())
	}
	t.Right("the ConfigMap was not written, and kro does not repeat that: its second try was put back, with a warning")
	out, err := s.sh(ctx, t, Hans, "kubectl kausality pending -n "+namespace)
	if err != nil {
		return err
	}
	t.Reports("%s", out)
	cause, _, _ := unstructured.NestedString(d.Object, "spec", "cause")
	revision, err := s.revision(ctx)
	if err != nil {
		return err
	}
	if want := fmt.Sprintf("ResourceGraphDefinition shop revision %d, changed by %s", revision, Anna); cause != want {
		return fmt.Errorf("the cause is %q, not %q", cause, want)
	}
	t.Right("it names the cause: %s", cause)
	s.command, _, _ = unstructured.NestedString(d.Object, "spec", "suggestedApproval")
	return nil
}

func (s *shop) approved(ctx context.Context, t *story.Teller) error {
	if _, err := s.sh(ctx, t, Hans, s.command); err != nil {
		return err
	}
	began := time.Now()
	if err := s.data(ctx, "tier", "gold"); err != nil {
		return err
	}
	t.Right("the gate woke kro, and the change passed %.1f s after the approval", time.Since(began).Seconds())
	o, err := s.get(ctx, ConfigMaps)
	if err != nil {
		return err
	}
	hops, err := story.Trace(o)
	if err != nil {
		return err
	}
	t.Reports("%s", story.Tree(hops))
	last := hops[len(hops)-1]
	if last.Approval == nil || len(last.Causes) != 1 || last.Causes[0].Kind != v1alpha1.CauseGraph || last.Causes[0].Author != Anna {
		return fmt.Errorf("the trace has not the approval and the revision of the graph: %+v", last)
	}
	t.Right("the trace has the revision of the graph as the cause, anna as its author, and the approval")
	return nil
}

func (s *shop) dropped(ctx context.Context, t *story.Teller) error {
	if _, err := s.sh(ctx, t, Anna, "sed -e s/silver/gold/ -e '/id: service/,$d' examples/kro/graph.yaml | kubectl apply -f -"); err != nil {
		return err
	}
	d, err := s.drift(ctx, "DELETE")
	if err != nil {
		return err
	}
	if _, err := s.get(ctx, Services); err != nil {
		return err
	}
	t.Right("the deletion of the Service is refused: no user requested it")
	command, _, _ := unstructured.NestedString(d.Object, "spec", "suggestedApproval")
	if _, err := s.sh(ctx, t, Hans, command); err != nil {
		return err
	}
	if err := s.gone(ctx, Services); err != nil {
		return err
	}
	t.Right("kro, which tries it again every three seconds, deletes it")
	return nil
}

func (s *shop) deleted(ctx context.Context, t *story.Teller) error {
	if _, err := s.sh(ctx, t, Hans, "kubectl delete shop db --timeout=30s"); err != nil {
		return err
	}
	if err := s.gone(ctx, ConfigMaps); err != nil {
		return err
	}
	t.Right("kro deleted the ConfigMap: he requested it")
	return nil
}

// gone waits until there is no object of that kind.
func (s *shop) gone(ctx context.Context, r schema.GroupVersionResource) error {
	return until(ctx, r.Resource+" to be gone", func(ctx context.Context) error {
		switch _, err := s.get(ctx, r); {
		case kerrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("%w: it exists", errState)
	})
}

// revision of the graph that kro carries out.
func (s *shop) revision(ctx context.Context) (int64, error) {
	c, err := s.As(Anna)
	if err != nil {
		return 0, err
	}
	o, err := c.Resource(Graphs).Get(ctx, "shop", metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	n, _, err := unstructured.NestedInt64(o.Object, "status", "lastIssuedRevision")
	return n, err
}

// get an object of the shop, whose name is the shop's.
func (s *shop) get(ctx context.Context, r schema.GroupVersionResource) (*unstructured.Unstructured, error) {
	c, err := s.As(Hans)
	if err != nil {
		return nil, err
	}
	return c.Resource(r).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
}

// settled waits until the shop settled at a generation.
func (s *shop) settled(ctx context.Context, generation int64) error {
	return until(ctx, "the shop to settle", func(ctx context.Context) error {
		o, err := s.get(ctx, Shops)
		if err != nil {
			return err
		}
		if at := o.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration]; at != fmt.Sprint(generation) {
			return fmt.Errorf("%w: it settled at %q: %v", errState, at, o.Object["status"])
		}
		return nil
	})
}

// data waits for a value in the ConfigMap.
func (s *shop) data(ctx context.Context, key, want string) error {
	return until(ctx, "the ConfigMap to be written", func(ctx context.Context) error {
		o, err := s.get(ctx, ConfigMaps)
		if err != nil {
			return err
		}
		if is, _, _ := unstructured.NestedString(o.Object, "data", key); is != want {
			return fmt.Errorf("%w: %s is %q", errState, key, is)
		}
		return nil
	})
}

// drift waits for the open Drift about an operation on a child of the shop.
func (s *shop) drift(ctx context.Context, operation string) (found *unstructured.Unstructured, err error) {
	c, err := s.As(Hans)
	if err != nil {
		return nil, err
	}
	return found, until(ctx, "a Drift", func(ctx context.Context) error {
		list, err := c.Resource(Drifts).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			found = &list.Items[i]
			is, _, _ := unstructured.NestedString(found.Object, "spec", "operation")
			phase, _, _ := unstructured.NestedString(found.Object, "status", "phase")
			if is == operation && phase == string(v1alpha1.DriftDetected) {
				return nil
			}
		}
		status, _ := json.Marshal(list.Items) //nolint:errchkjson // They came as JSON.
		return fmt.Errorf("%w: none of %s", errState, status)
	})
}
