package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gardenv1 "github.com/kausality-io/function-kausality/examples/generic-control-plane/garden/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// patience with each step.
const patience = 30 * time.Second

// story of one garden in a cluster.
type story struct {
	server  *server
	cluster string
	out     io.Writer
	// hans is a gardener, admin may do anything.
	hans, admin client.Client
	garden      types.NamespacedName
	build       *running
}

// running build of the controller.
type running struct {
	end  context.CancelFunc
	done chan error
}

func newStory(s *server, cluster string, out io.Writer) (*story, error) {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{gardenv1.AddToScheme, v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(types); err != nil {
			return nil, err
		}
	}
	out2 := &story{server: s, cluster: cluster, out: out}
	out2.garden.Namespace, out2.garden.Name = "default", "roses"
	for config, c := range map[*rest.Config]*client.Client{
		s.as("hans", cluster): &out2.hans, clusters.Config(rest.CopyConfig(s.loopback), cluster): &out2.admin,
	} {
		made, err := client.New(config, client.Options{Scheme: types})
		if err != nil {
			return nil, err
		}
		*c = made
	}
	return out2, nil
}

// chapters in their order.
var chapters = []struct {
	title string
	play  func(*story, context.Context) error
}{
	{"hans plants a garden, and its controller makes two plants", (*story).plants},
	{"hans changes the variety, and the controller changes both", (*story).changes},
	{"a new build of the controller wants to fertilize, which was not requested", (*story).drifts},
	{"hans approves exactly that", (*story).approves},
}

// play all chapters.
func (s *story) play(ctx context.Context) error {
	for i, c := range chapters {
		fmt.Fprintf(s.out, "\n%d. %s\n", i+1, c.title)
		if err := c.play(s, ctx); err != nil {
			return fmt.Errorf("chapter %d: %w", i+1, err)
		}
	}
	return s.stop()
}

// start a build of the controller in place of the last one.
func (s *story) start(ctx context.Context, fertilizer string) error {
	if err := s.stop(); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	s.build = &running{end: end, done: make(chan error, 1)}
	config := s.server.as("controller", s.cluster)
	go func(b *running) { b.done <- runController(ctx, config, fertilizer) }(s.build)
	return nil
}

// stop the build that runs.
func (s *story) stop() error {
	if s.build == nil {
		return nil
	}
	s.build.end()
	err := <-s.build.done
	s.build = nil
	return err
}

func (s *story) plants(ctx context.Context) error {
	if err := s.start(ctx, ""); err != nil {
		return err
	}
	g := &gardenv1.Garden{ObjectMeta: metav1.ObjectMeta{Namespace: s.garden.Namespace, Name: s.garden.Name}, Spec: gardenv1.GardenSpec{Plants: 2, Variety: "red"}}
	if err := s.eventually(ctx, "a garden to be planted", func() (bool, error) {
		err := s.hans.Create(ctx, g) // is refused until the kinds and policies of the cluster are read
		return err == nil, err
	}); err != nil {
		return err
	}
	return s.grown(ctx, gardenv1.PlantSpec{Variety: "red"})
}

func (s *story) changes(ctx context.Context) error {
	if err := s.patch(ctx, map[string]any{"spec": map[string]any{"variety": "white"}}); err != nil {
		return err
	}
	return s.grown(ctx, gardenv1.PlantSpec{Variety: "white"})
}

// approval is the annotation that a message suggests.
var approval = regexp.MustCompile(`kausality\.io/approve-[0-9a-f]+`)

func (s *story) drifts(ctx context.Context) error {
	if err := s.settled(ctx); err != nil {
		return err
	}
	if err := s.start(ctx, "bone meal"); err != nil {
		return err
	}
	return s.eventually(ctx, "the fertilizer to be refused", func() (bool, error) {
		g := &gardenv1.Garden{}
		if err := s.hans.Get(ctx, s.garden, g); err != nil {
			return false, err
		}
		ready := meta.FindStatusCondition(g.Status.Conditions, "Ready")
		if ready == nil || ready.Status != metav1.ConditionFalse || !approval.MatchString(ready.Message) {
			return false, fmt.Errorf("the condition is %+v", ready)
		}
		fmt.Fprintf(s.out, "   refused: %s\n", ready.Message)
		return true, s.all(ctx, gardenv1.PlantSpec{Variety: "white"})
	})
}

func (s *story) approves(ctx context.Context) error {
	drifts := &v1alpha1.DriftList{}
	if err := s.eventually(ctx, "a Drift of each plant", func() (bool, error) {
		err := s.hans.List(ctx, drifts)
		return len(drifts.Items) == 2, err
	}); err != nil {
		return err
	}
	annotations := map[string]any{}
	for _, d := range drifts.Items {
		annotations[v1alpha1.AnnotationKeyApprovePrefix+d.Spec.ID] = "once"
	}
	if err := s.patch(ctx, map[string]any{"metadata": map[string]any{"annotations": annotations}}); err != nil {
		return err
	}
	return s.grown(ctx, gardenv1.PlantSpec{Variety: "white", Fertilizer: "bone meal"})
}

// patch the garden as hans.
func (s *story) patch(ctx context.Context, what map[string]any) error {
	raw, err := json.Marshal(what)
	if err != nil {
		return err
	}
	g := &gardenv1.Garden{ObjectMeta: metav1.ObjectMeta{Namespace: s.garden.Namespace, Name: s.garden.Name}}
	return s.hans.Patch(ctx, g, client.RawPatch(types.MergePatchType, raw))
}

// grown waits until all plants are as wanted, and prints why.
func (s *story) grown(ctx context.Context, want gardenv1.PlantSpec) error {
	if err := s.eventually(ctx, "the plants", func() (bool, error) { err := s.all(ctx, want); return err == nil, err }); err != nil {
		return err
	}
	p := &gardenv1.Plant{}
	if err := s.hans.Get(ctx, types.NamespacedName{Namespace: s.garden.Namespace, Name: s.garden.Name + "-0"}, p); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "   %s is %+v\n   because of %s\n", p.Name, p.Spec, p.Annotations[v1alpha1.AnnotationKeyTrace])
	return nil
}

// all plants are as wanted, or an error.
func (s *story) all(ctx context.Context, want gardenv1.PlantSpec) error {
	list := &gardenv1.PlantList{}
	if err := s.hans.List(ctx, list, client.InNamespace(s.garden.Namespace)); err != nil {
		return err
	}
	if len(list.Items) != 2 {
		return fmt.Errorf("there are %d plants", len(list.Items))
	}
	for _, p := range list.Items {
		if p.Spec != want {
			return fmt.Errorf("plant %s is %+v, not %+v", p.Name, p.Spec, want)
		}
	}
	return nil
}

// settled waits until the last intent has settled: that of its generation, and none before.
func (s *story) settled(ctx context.Context) error {
	return s.eventually(ctx, "the garden to settle", func() (bool, error) {
		g := &gardenv1.Garden{}
		if err := s.hans.Get(ctx, s.garden, g); err != nil {
			return false, err
		}
		settled := g.Annotations[v1alpha1.AnnotationKeySettledGeneration]
		return settled == strconv.FormatInt(g.Generation, 10), fmt.Errorf("generation %d has annotations %v", g.Generation, g.Annotations)
	})
}

// eventually something is true. The last error is why it was not.
func (s *story) eventually(ctx context.Context, what string, f func() (bool, error)) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		select {
		case err := <-s.build.done:
			return false, fmt.Errorf("the controller ended: %w", err)
		default:
		}
		var ok bool
		ok, last = f()
		return ok, nil
	})
	if err != nil {
		return fmt.Errorf("waited for %s: %w: %w", what, err, last)
	}
	return nil
}
