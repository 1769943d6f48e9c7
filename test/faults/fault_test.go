package faults

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// The faults.
const (
	killed      = "kill -9"
	stopped     = "SIGSTOP"
	cut         = "no network"
	full        = "full disk"
	behind      = "clock -2m"
	ahead       = "clock +2m"
	throttled   = "429 and slow"
	compacted   = "compaction, 410"
	silent      = "silent watch"
	unconverted = "conversion webhook"
	expired     = "certificate"
)

// lasts is how long each fault lasts.
var lasts = map[string]time.Duration{
	killed: 5 * time.Second, stopped: 20 * time.Second, cut: 30 * time.Second, full: 15 * time.Second, behind: 10 * time.Second,
	ahead: 10 * time.Second, throttled: 20 * time.Second, compacted: 5 * time.Second, silent: 30 * time.Second, unconverted: 15 * time.Second,
	expired: 15 * time.Second,
}

// effect of a fault that was begun.
type effect struct {
	// happened is an error where the fault had none, before it ends.
	happened func(context.Context) error
	// end it, without any repair of what it did.
	end func(context.Context) error
}

func nothing(context.Context) error { return nil }

// begin a fault.
func (e *environment) begin(ctx context.Context, in injection) (effect, error) {
	p := e.Process(processes[in.component])
	switch in.fault {
	case killed:
		e.keep(in.component, true)
		p.Kill()
		return effect{func(context.Context) error { return ended(p) }, func(context.Context) error { e.keep(in.component, false); return nil }}, nil
	case stopped:
		p.Signal(syscall.SIGSTOP)
		return effect{func(context.Context) error { return isStopped(p.Pid()) }, func(context.Context) error { p.Signal(syscall.SIGCONT); return nil }}, nil
	case full:
		return e.fill(in.component, p)
	case behind, ahead:
		return e.skew(in)
	case compacted:
		return e.compact(ctx, in)
	case unconverted:
		return e.unconvert(ctx)
	case expired:
		return e.expire(ctx, in.component)
	case silent:
		return e.silence(ctx, in)
	default:
		return e.sever(in), nil
	}
}

// concerned lines: those of a component, all for the API server.
func (e *environment) concerned(component string) []*line {
	if l, ok := e.lines[component]; ok {
		return []*line{l}
	}
	if component != apiserver {
		return nil
	}
	var out []*line
	for _, l := range e.lines {
		out = append(out, l)
	}
	return out
}

func (e *environment) sever(in injection) effect {
	for _, l := range e.concerned(in.component) {
		l.begin(in.fault)
	}
	happened := func(context.Context) error {
		for _, l := range e.concerned(in.component) {
			if l.affected.Load() > 0 {
				return nil
			}
		}
		return errors.New("it concerned no request")
	}
	return effect{happened, func(context.Context) error {
		for _, l := range e.concerned(in.component) {
			l.finish()
		}
		return nil
	}}
}

// silence the watches of a component, and change an object that each of them watches: some see nothing else of a chapter.
func (e *environment) silence(ctx context.Context, in injection) (effect, error) {
	out := e.sever(in)
	at := fmt.Sprintf(`{"metadata":{"annotations":{"silence":%q}}}`, time.Now().Format(time.RFC3339Nano))
	_, err := e.admin.Resource(namespaces).Patch(ctx, metav1.NamespaceDefault, types.MergePatchType, []byte(at), metav1.PatchOptions{})
	return out, err
}

// fill the disk of a process: it cannot write to any file. A process that ends of it is
// started again, with a disk that has space.
func (e *environment) fill(component string, p *controlplane.Process) (effect, error) {
	var was, is unix.Rlimit
	pid := p.Pid()
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 0, Max: unix.RLIM_INFINITY}, &was); err != nil {
		return effect{}, fmt.Errorf("cannot limit the files of process %d: %w", pid, err)
	}
	happened := e.restarted(map[string]int{component: pid})
	if component != etcd { // which ends; others write no files that they need
		happened = func(context.Context) error {
			if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &is); err != nil || is.Cur == 0 {
				return err
			}
			return fmt.Errorf("process %d may write files of %d bytes", pid, is.Cur)
		}
	}
	return effect{happened, func(context.Context) error {
		err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &was, nil)
		if errors.Is(err, unix.ESRCH) { // it ended
			err = nil
		}
		return err
	}}, nil
}

// skew the clocks: a component's own, or all of Kausality's where the API server's is wrong,
// which is the same to them. A clock is wrong from the start of a process.
func (e *environment) skew(in injection) (effect, error) {
	if e.skews == "" {
		return effect{}, errors.New("this binary has no clock that can be wrong: run it with -faults.all")
	}
	concerned, by := []string{in.component}, "2m"
	if in.component == apiserver {
		concerned = ours
	}
	if (in.fault == behind) != (in.component == apiserver) {
		by = "-2m"
	}
	was := map[string]int{}
	for _, c := range concerned {
		was[c] = e.Process(processes[c]).Pid()
	}
	set := func(by string) error {
		var errs []error
		for _, c := range concerned {
			errs = append(errs, os.WriteFile(filepath.Join(e.skews, c), []byte(by), 0o600))
			e.Process(processes[c]).Kill()
		}
		return errors.Join(errs...) // the kubelet starts them
	}
	return effect{e.restarted(was), func(context.Context) error { return set("0s") }}, set(by)
}

// compact etcd: watches from before it are answered with 410. An API server that is to
// have nothing older in memory is started again.
func (e *environment) compact(ctx context.Context, in injection) (effect, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{e.EtcdURL()}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return effect{}, err
	}
	defer c.Close() //nolint:errcheck // Nothing is left to lose.
	now, err := c.Get(ctx, "/registry/health")
	if err != nil {
		return effect{}, err
	}
	if _, err := c.Compact(ctx, now.Header.Revision); err != nil {
		return effect{}, err
	}
	if _, ok := e.lines[in.component]; ok || in.component == apiserver {
		return e.sever(in), nil
	}
	was := map[string]int{apiserver: e.Process(parts.KubeAPIServer).Pid()}
	e.Process(parts.KubeAPIServer).Kill()
	return effect{e.restarted(was), nothing}, nil
}

// unconvert: Databases are stored in a version that only a conversion webhook can read,
// which does not answer.
func (e *environment) unconvert(ctx context.Context) (effect, error) {
	const name = "databases.cloud.example.org"
	o, err := e.admin.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return effect{}, err
	}
	versions := o.Object["spec"].(map[string]any)["versions"].([]any)
	next := map[string]any{}
	raw, _ := json.Marshal(versions[0]) //nolint:errchkjson // It was JSON.
	if err := json.Unmarshal(raw, &next); err != nil {
		return effect{}, err
	}
	next["name"], next["storage"] = "v1alpha2", true
	old := map[string]any{}
	if err := json.Unmarshal(raw, &old); err != nil {
		return effect{}, err
	}
	old["storage"] = false
	broken := map[string]any{"strategy": "Webhook", "webhook": map[string]any{"conversionReviewVersions": []any{"v1"},
		"clientConfig": map[string]any{"url": "https://127.0.0.1:1/convert"}}}
	set := func(ctx context.Context, spec map[string]any) error {
		raw, err := json.Marshal(map[string]any{"spec": spec})
		if err != nil {
			return err
		}
		_, err = e.admin.Resource(definitions).Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{})
		return err
	}
	happened := func(context.Context) error {
		if e.unconverted.Load() {
			return nil
		}
		return errors.New("no write of a Database failed by its conversion")
	}
	e.unconverted.Store(false)
	watched, stop := context.WithCancel(context.WithoutCancel(ctx))
	go e.tryToConvert(watched)
	return effect{happened, func(ctx context.Context) error { // its webhook works again: both versions are the same
		stop()
		return set(ctx, map[string]any{"versions": []any{versions[0], withStorage(next, false)},
			"conversion": map[string]any{"strategy": "None", "webhook": nil}})
	}}, set(ctx, map[string]any{"versions": []any{old, next}, "conversion": broken})
}

func withStorage(version map[string]any, storage bool) map[string]any {
	version["storage"] = storage
	return version
}

// expire the certificate of a component: the webhook's and the policy controller's in their
// Secrets, which the policy controller renews, and the function's file, which Crossplane's
// package manager does.
func (e *environment) expire(ctx context.Context, component string) (effect, error) {
	if component == function {
		return e.expireFile(filepath.Join(e.Dir(), "function-certs"))
	}
	cert, key, err := outdated()
	if err != nil {
		return effect{}, err
	}
	name, data := "kausality-webhook-tls", map[string]any{"tls.crt": cert, "tls.key": key}
	if component == controller {
		name, data = "kausality-webhook-authority", map[string]any{"authorities.pem": slices.Concat(cert, key)}
	}
	raw, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return effect{}, err
	}
	if _, err := e.admin.Resource(secrets).Namespace(home).Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{}); err != nil {
		return effect{}, err
	}
	p := e.Process(processes[component])
	if component == webhook {
		seen := e.watchCertificate(ctx, e.address)
		p.Kill() // so that it begins with what is stored
		return effect{seen, nothing}, nil
	}
	restarted := e.restarted(map[string]int{component: p.Pid()})
	p.Kill()
	return effect{func(ctx context.Context) error { // it is the leader again once its lease has ended
		return persist(ctx, func(ctx context.Context) error {
			return errors.Join(restarted(ctx), e.renewed(ctx, name, slices.Concat(cert, key)))
		})
	}, nothing}, nil
}

func (e *environment) expireFile(dir string) (effect, error) {
	cert, key, err := outdated()
	if err != nil {
		return effect{}, err
	}
	for name, data := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return effect{}, err
		}
	}
	was := map[string]int{function: e.Process(processes[function]).Pid()}
	e.Process(processes[function]).Kill()
	return effect{e.restarted(was), func(context.Context) error {
		if err := e.CA().ServingCert(dir); err != nil {
			return err
		}
		e.Process(processes[function]).Kill()
		return nil
	}}, nil
}

// outdated certificate, and its key, in PEM.
func outdated() (cert, key []byte, err error) {
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, t, t, priv.Public(), priv)
	if err != nil {
		return nil, nil, err
	}
	raw, err := x509.MarshalECPrivateKey(priv)
	if err != nil {
		return nil, nil, err
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}), nil
}

// skewed is the clock of a machine that is wrong, in place of admission/clock/local.go: by
// the duration in a file that is named after the component.
const skewed = `package clock

import (
	"os"
	"path/filepath"
	"time"
)

var skew = func() time.Duration {
	name := "function"
	if len(os.Args) > 1 && (os.Args[1] == "webhook" || os.Args[1] == "gate" || os.Args[1] == "controller") {
		name = os.Args[1]
	}
	raw, err := os.ReadFile(filepath.Join(os.Getenv("KAUSALITY_TEST_SKEWS"), name))
	if err != nil {
		return 0
	}
	d, err := time.ParseDuration(string(raw))
	if err != nil {
		panic(err)
	}
	return d
}()

func local() time.Time { return time.Now().Add(skew) }
`

// wrongClocks builds the binary with clocks that can be wrong, and returns its path.
func (e *environment) wrongClocks(ctx context.Context) (program string, err error) {
	if e.skews, err = os.MkdirTemp("", "kausality-skews-"); err != nil {
		return "", err
	}
	if err := os.Setenv("KAUSALITY_TEST_SKEWS", e.skews); err != nil {
		return "", err
	}
	root, err := parts.Root()
	if err != nil {
		return "", err
	}
	replacement, overlay := filepath.Join(e.skews, "local.go"), filepath.Join(e.skews, "overlay.json")
	program = filepath.Join(e.skews, "kausality")
	raw, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "admission", "clock", "local.go"): replacement}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(replacement, []byte(skewed), 0o600), os.WriteFile(overlay, raw, 0o600)); err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-overlay", overlay, "-o", program, "./cmd/kausality")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build a binary with clocks that can be wrong: %w\n%s", err, out)
	}
	return program, nil
}
