package faults

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// ended: a process does not run.
func ended(p *controlplane.Process) error {
	select {
	case <-p.Done():
		return nil
	default:
		return fmt.Errorf("%s runs", p.Name())
	}
}

// isStopped: the state of a process is that of one which was stopped.
func isStopped(pid int) error {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err
	}
	_, after, _ := strings.Cut(string(raw), ") ")
	if !strings.HasPrefix(after, "T") {
		return fmt.Errorf("process %d is not stopped: %s", pid, raw)
	}
	return nil
}

// restarted: processes are others than those with the ids.
func (e *environment) restarted(was map[string]int) func(context.Context) error {
	return func(context.Context) error {
		for c, pid := range was {
			if e.Process(processes[c]).Pid() == pid {
				return fmt.Errorf("%s was not started again", c)
			}
		}
		return nil
	}
}

// renewed: a Secret has not what was outdated alone, which nothing but the policy controller changes.
func (e *environment) renewed(ctx context.Context, name string, outdated []byte) error {
	o, err := e.admin.Resource(secrets).Namespace(home).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	encoded, _, _ := unstructured.NestedString(o.Object, "data", "authorities.pem")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err == nil && bytes.Equal(raw, outdated) {
		err = fmt.Errorf("Secret %s has the outdated authority alone", name)
	}
	return err
}

// tryToConvert a Database until that fails, by a dry run of its creation.
func (e *environment) tryToConvert(ctx context.Context) {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cloud.example.org/v1alpha1", "kind": "Database",
		"metadata": map[string]any{"name": "not-converted"}, "spec": map[string]any{"forProvider": map[string]any{"size": int64(1)}}}}
	repeat(ctx, pace, func() bool {
		_, err := e.admin.Resource(story.Databases).Namespace("default").Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		e.unconverted.Store(err != nil && strings.Contains(err.Error(), "conversion webhook"))
		return e.unconverted.Load()
	})
}

// watchCertificate that is served at an address. What it returns ends that, and reports whether an outdated one was.
func (e *environment) watchCertificate(ctx context.Context, address string) (happened func(context.Context) error) {
	var seen atomic.Bool
	watched, stop := context.WithCancel(context.WithoutCancel(ctx))
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // The certificate is what is judged.
	go repeat(watched, 50*time.Millisecond, func() bool {
		c, err := dialer.DialContext(watched, "tcp", address)
		if err != nil {
			return false
		}
		certs := c.(*tls.Conn).ConnectionState().PeerCertificates
		seen.Store(time.Now().After(certs[0].NotAfter))
		_ = c.Close()
		return seen.Load()
	})
	return func(context.Context) error {
		stop()
		if !seen.Load() {
			return errors.New("no outdated certificate was served at " + address)
		}
		return nil
	}
}

// repeat f until it is true, or the context ends.
func repeat(ctx context.Context, every time.Duration, f func() bool) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !f() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
