package webhook

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBadInput: each mistake ends in one line with what to do, and an exit code
// that is not 0 and is 2 for a wrong command line, within 15 seconds.
func TestBadInput(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() }) // after the cases, which run in parallel
	taken, dir := l.Addr().String(), t.TempDir()
	nowhere := filepath.Join(dir, "nowhere")
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	raw, err := os.ReadFile(the.kubeconfig)
	require.NoError(t, err)
	lines := strings.Split(string(raw), "\n")
	for i, line := range lines {
		if at := strings.Index(line, "server:"); at >= 0 {
			lines[i] = line[:at] + "server: https://127.0.0.1:1"
		}
	}
	unreachable := write("unreachable", strings.Join(lines, "\n"))
	garbage := write("garbage", "{{{ no yaml")
	ca := filepath.Join(the.certs, "ca.crt")
	webhook := func(args ...string) []string {
		return append([]string{"webhook", "--kubeconfig=" + the.kubeconfig, "--cert-dir=" + the.certs, "--bind-address=127.0.0.1:0"}, args...)
	}
	gate := func(args ...string) []string {
		return append([]string{"gate", "--kubeconfig=" + the.kubeconfig}, args...)
	}
	manifests := func(args ...string) []string {
		return append([]string{"manifests", "--webhook-url=https://127.0.0.1:9443", "--ca-file=" + ca, "--resources=deployments.apps"}, args...)
	}
	cases := map[string]struct {
		args []string
		code int
		want string
	}{
		"UnknownFlag":          {args: []string{"--nonsense"}, code: 2, want: "--help"},
		"UnknownFlagWebhook":   {args: []string{"webhook", "--nonsense"}, code: 2, want: "kausality webhook --help"},
		"UnknownFlagNotifyLog": {args: []string{"notify", "log", "--nonsense"}, code: 2, want: "kausality notify log --help"},
		"UnknownShorthand":     {args: []string{"gate", "-z"}, code: 2, want: "--help"},
		"UnknownSubcommand":    {args: []string{"frobnicate"}, code: 2, want: `"frobnicate"`},
		"UnknownBackend":       {args: []string{"notify", "pigeon"}, code: 2, want: `"pigeon"`},
		"NoBackend":            {args: []string{"notify"}, code: 2, want: "--help"},
		"ArgumentTooMany":      {args: []string{"webhook", "now"}, code: 2, want: `"now"`},
		"VersionArgument":      {args: []string{"version", "now"}, code: 2, want: `"now"`},
		"NoDuration":           {args: webhook("--settle-grace=soon"), code: 2, want: "--settle-grace"},
		"FlagWithoutValue":     {args: []string{"webhook", "--kubeconfig"}, code: 2, want: "--kubeconfig"},
		"UnreachableWebhook": {args: []string{"webhook", "--kubeconfig=" + unreachable, "--cert-dir=" + the.certs, "--bind-address=127.0.0.1:0"},
			code: 1, want: "https://127.0.0.1:1"},
		"UnreachableGate": {args: []string{"gate", "--kubeconfig=" + unreachable}, code: 1, want: "--kubeconfig"},
		"NoKubeconfig": {args: []string{"webhook", "--kubeconfig=" + nowhere, "--cert-dir=" + the.certs}, code: 1,
			want: "--kubeconfig"},
		"NoKubeconfigAtAll": {args: []string{"webhook", "--cert-dir=" + the.certs}, code: 1, want: "--kubeconfig"},
		"GarbageKubeconfig": {args: []string{"gate", "--kubeconfig=" + garbage}, code: 1, want: "--kubeconfig"},
		"NoCertDir": {args: []string{"webhook", "--kubeconfig=" + the.kubeconfig, "--bind-address=127.0.0.1:0"}, code: 1,
			want: "--cert-dir"},
		"NoCertificate":       {args: webhook("--cert-dir=" + dir), code: 1, want: "tls.crt"},
		"GarbageCertificate":  {args: webhook("--cert-dir=" + garbageCerts(t)), code: 1, want: "--cert-dir"},
		"NotifyNoCertificate": {args: []string{"notify", "log", "--bind-address=127.0.0.1:0"}, code: 1, want: "--cert-dir"},
		"FunctionNoCerts":     {code: 2, want: "--tls-certs-dir"},
		"FunctionNoCertFile":  {args: []string{"--tls-certs-dir=" + dir}, code: 1, want: "--tls-certs-dir"},
		"FunctionTakenPort":   {args: []string{"--insecure", "--metrics-bind-address=0", "--address=" + taken}, code: 1, want: taken},
		"FunctionTakenMetrics": {args: []string{"--insecure", "--address=127.0.0.1:0", "--metrics-bind-address=" + taken}, code: 1,
			want: "--metrics-bind-address"},
		"TakenPort":        {args: webhook("--bind-address=" + taken), code: 1, want: "--bind-address"},
		"TakenMetrics":     {args: webhook("--metrics-bind-address=" + taken), code: 1, want: "--metrics-bind-address"},
		"TakenProbes":      {args: webhook("--health-probe-bind-address=" + taken), code: 1, want: "--health-probe-bind-address"},
		"GateTakenMetrics": {args: gate("--metrics-bind-address=" + taken), code: 1, want: "--metrics-bind-address"},
		"GateTakenProbes":  {args: gate("--health-probe-bind-address=" + taken), code: 1, want: "--health-probe-bind-address"},
		"NotifyTakenPort": {args: []string{"notify", "log", "--cert-dir=" + the.certs, "--bind-address=" + taken}, code: 1,
			want: "--bind-address"},
		"NoAddress":       {args: webhook("--bind-address=here"), code: 1, want: "--bind-address"},
		"NoPort":          {args: webhook("--bind-address=127.0.0.1:http-or-so"), code: 1, want: "--bind-address"},
		"Mode":            {args: webhook("--default-mode=strict"), code: 2, want: `log or enforce, not "strict"`},
		"ModeGate":        {args: gate("--default-mode=strict"), code: 2, want: `log or enforce, not "strict"`},
		"Identify":        {args: webhook("--identify-controller=guess"), code: 2, want: "--identify-controller"},
		"ExpectUntil":     {args: webhook("--expect-until=monday"), code: 2, want: "--expect-until"},
		"RefusalStatus":   {args: webhook("--composed-refusal-status=418"), code: 2, want: "--composed-refusal-status"},
		"PendingDrift":    {args: webhook("--on-pending-drift=shrug"), code: 2, want: "--on-pending-drift"},
		"ControllerUsers": {args: webhook("--controller-users=("), code: 2, want: "--controller-users"},
		"GateClosed":      {args: webhook("--gate-closed=Create"), code: 2, want: "--gate-closed"},
		"ReportPlainHTTP": {args: webhook("--drift-webhook-url=http://127.0.0.1:1"), code: 2, want: "https"},
		"ReportNoURL":     {args: webhook("--drift-webhook-url=https://"), code: 2, want: "https"},
		"ReportCAMissing": {args: webhook("--drift-webhook-url=https://127.0.0.1:1", "--drift-webhook-ca-file="+nowhere),
			code: 2, want: "--drift-webhook-ca-file"},
		"ReportCAGarbage": {args: webhook("--drift-webhook-url=https://127.0.0.1:1", "--drift-webhook-ca-file="+garbage),
			code: 2, want: "has no certificate"},
		"ManifestsURL":        {args: manifests("--webhook-url=http://127.0.0.1"), code: 2, want: "--webhook-url"},
		"ManifestsNoURL":      {args: []string{"manifests"}, code: 2, want: "--webhook-url"},
		"ManifestsCAMissing":  {args: manifests("--ca-file=" + nowhere), code: 1, want: "--ca-file"},
		"ManifestsCAGarbage":  {args: manifests("--ca-file=" + garbage), code: 2, want: "PEM"},
		"ManifestsResource":   {args: manifests("--resources=Deployment.apps"), code: 2, want: "--resources"},
		"ManifestsEverything": {args: manifests("--resources=*.*"), code: 2, want: "--resources"},
		"ManifestsNodes":      {args: manifests("--resources=nodes"), code: 2, want: "--resources"},
		"ManifestsMode":       {args: manifests("--default-mode=strict"), code: 2, want: "--default-mode"},
		"ManifestsPolicy":     {args: manifests("--failure-policy=maybe"), code: 2, want: "--failure-policy"},
	}
	slots := make(chan struct{}, 2)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			code, stderr := mistake(t, tc.args)
			if code != tc.code {
				t.Errorf("exit code %d, want %d; stderr: %s", code, tc.code, stderr)
			}
			if n := strings.Count(stderr, "\n"); n != 1 || !strings.HasPrefix(stderr, "kausality: ") || !strings.HasSuffix(stderr, "\n") {
				t.Errorf("want exactly one line on stderr that begins with kausality:, got %d:\n%s", n, stderr)
			}
			if !strings.Contains(stderr, tc.want) || strings.Contains(stderr, "goroutine ") || strings.Contains(stderr, ".go:") {
				t.Errorf("want %q and no stack trace in: %s", tc.want, stderr)
			}
		})
	}
}

func garbageCerts(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range []string{"tls.crt", "tls.key"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, f), []byte("hello"), 0o600))
	}
	return dir
}

// mistake runs the binary and returns how it ended.
func mistake(t *testing.T, args []string) (code int, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, the.kausality, args...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("it still runs after 15 s; stderr: %s", errs.String())
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), errs.String()
	}
	require.NoError(t, err)
	return 0, errs.String()
}
