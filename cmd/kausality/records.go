package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	recordsv1alpha1 "github.com/kausality-io/function-kausality/api/records/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/records"
	"github.com/kausality-io/function-kausality/internal/records/sink"
	"github.com/kausality-io/function-kausality/internal/records/spool"
)

// drainTimeout is how long a process that ends still delivers records: its spool may go with its Pod.
const drainTimeout = 5 * time.Second

// recordFlags are those of records, which are off without a directory.
type recordFlags struct {
	dir   string
	size  string
	sinks []string
}

// add the flags.
func (f *recordFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.dir, "record-spool-dir", "", "Directory of the spool of records, for this process alone; empty keeps no records.")
	fl.StringVar(&f.size, "record-spool-size", "256Mi", "Size of the spool at most; when it is full the oldest records are lost.")
	fl.StringArrayVar(&f.sinks, "record-sink", nil,
		"Where to deliver records: cloudevents=URL, otlp=URL or nats=URL, with options as in ,token-file=PATH,ca-file=PATH; repeatable.")
}

// options as given; an error is a usage error.
func (f *recordFlags) options() (bytes int64, sinks []sink.Config, err error) {
	if f.dir == "" && len(f.sinks) == 0 {
		return 0, nil, nil
	}
	if f.dir == "" || len(f.sinks) == 0 {
		return 0, nil, errors.New("--record-spool-dir and --record-sink belong together")
	}
	size, err := resource.ParseQuantity(f.size)
	if err != nil || size.Value() < spool.MinBytes {
		return 0, nil, fmt.Errorf("--record-spool-size must be a quantity of at least 1Mi, not %q", f.size)
	}
	names := map[string]bool{}
	for _, text := range f.sinks {
		c, err := sink.Parse(text)
		if err != nil {
			return 0, nil, fmt.Errorf("--record-sink: %w", err)
		}
		if names[c.Name()] {
			return 0, nil, fmt.Errorf("--record-sink: %s is given twice", c.Name())
		}
		names[c.Name()] = true
		sinks = append(sinks, c)
	}
	return size.Value(), sinks, nil
}

// start the Recorder and the deliveries; a nil Recorder where records are off. stop ends them, after what was recorded is on disk and, if
// the sinks take it soon, delivered.
func (f *recordFlags) start(config *rest.Config, clusterName string, log logr.Logger) (r *records.Recorder, stop func(), err error) {
	bytes, sinks, err := f.options()
	if err != nil || len(sinks) == 0 {
		return nil, func() {}, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot keep records: %w", err)
	}
	var names []string
	for _, c := range sinks {
		names = append(names, c.Name())
	}
	queue, err := spool.Open(spool.Options{Dir: f.dir, MaxBytes: bytes, Readers: names, Lost: records.Lost})
	if err != nil {
		return nil, nil, fmt.Errorf("--record-spool-dir: %w", err)
	}
	deliveries, err := deliveriesOf(queue, sinks, f.dir, log)
	if err != nil {
		return nil, nil, errors.Join(err, queue.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, d := range deliveries {
		running.Go(func() { d.Run(ctx) })
	}
	r = records.New(queue, identify(client, clusterName), log)
	return r, func() {
		r.Close()
		drain(deliveries)
		cancel()
		running.Wait()
		if err := queue.Close(); err != nil {
			log.Error(err, "cannot close the spool")
		}
	}, nil
}

// deliveriesOf a spool to sinks.
func deliveriesOf(queue *spool.Spool, sinks []sink.Config, dir string, log logr.Logger) (out []*sink.Delivery, err error) {
	for _, c := range sinks {
		s, err := sink.New(c)
		if err != nil {
			return nil, fmt.Errorf("--record-sink: %s: %w", c.Name(), err)
		}
		aside, err := sink.NewAside(filepath.Join(dir, "aside"), c.Name())
		if err != nil {
			return nil, err
		}
		out = append(out, &sink.Delivery{Name: c.Name(), Reader: queue.Reader(c.Name()), Sink: s, Aside: aside, Log: log})
	}
	return out, nil
}

// drain waits until everything is delivered, or drainTimeout has passed.
func drain(deliveries []*sink.Delivery) {
	_ = wait.PollUntilContextTimeout(context.Background(), 20*time.Millisecond, drainTimeout, true, func(context.Context) (bool, error) {
		return !slices.ContainsFunc(deliveries, func(d *sink.Delivery) bool { return d.Reader.Pending() > 0 }), nil
	}) // its error is that the time has passed
}

// identify the cluster by the UID of the Namespace kube-system.
func identify(client kubernetes.Interface, name string) func(context.Context) (recordsv1alpha1.Cluster, error) {
	return func(ctx context.Context) (recordsv1alpha1.Cluster, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		// All of our roles may list Namespaces, and not all may get them.
		list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + metav1.NamespaceSystem})
		if err != nil {
			return recordsv1alpha1.Cluster{}, fmt.Errorf("cannot read Namespace %s: %w", metav1.NamespaceSystem, err)
		}
		if len(list.Items) != 1 {
			return recordsv1alpha1.Cluster{}, fmt.Errorf("cannot identify the cluster: Namespace %s does not exist", metav1.NamespaceSystem)
		}
		return recordsv1alpha1.Cluster{Name: name, UID: list.Items[0].UID}, nil
	}
}
