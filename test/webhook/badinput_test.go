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

// badInput is a command line, its exit code, and a part of what it prints.
type badInput struct {
	args []string
	code int
	want string
}

// processes that testBadInput may run at once.
var processes = make(chan struct{}, 2)

// testBadInput: each mistake ends in one line with what to do, and an exit code
// that is not 0 and is 2 for a wrong command line, within 15 seconds.
func testBadInput(t *testing.T, cases map[string]badInput) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			processes <- struct{}{}
			defer func() { <-processes }()
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

// webhookWith more arguments than a webhook needs.
func webhookWith(args ...string) []string {
	return append([]string{"webhook", "--kubeconfig=" + the.kubeconfig, "--cert-dir=" + the.certs, "--bind-address=127.0.0.1:0"}, args...)
}

// gateWith more arguments than a gate controller needs.
func gateWith(args ...string) []string {
	return append([]string{"gate", "--kubeconfig=" + the.kubeconfig}, args...)
}

// manifestsWith more arguments than manifests need.
func manifestsWith(args ...string) []string {
	ca := filepath.Join(the.certs, "ca.crt")
	return append([]string{"manifests", "--webhook-url=https://127.0.0.1:9443", "--ca-file=" + ca, "--resources=deployments.apps"}, args...)
}

// written is a file with a text.
func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// unreachableKubeconfig leads to a port that nothing listens on.
func unreachableKubeconfig(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(the.kubeconfig)
	require.NoError(t, err)
	lines := strings.Split(string(raw), "\n")
	for i, line := range lines {
		if at := strings.Index(line, "server:"); at >= 0 {
			lines[i] = line[:at] + "server: https://127.0.0.1:1"
		}
	}
	return written(t, strings.Join(lines, "\n"))
}

// TestBadInput: files, certificates and addresses that cannot be used.
func TestBadInput(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() }) // after the cases, which run in parallel
	taken, dir := l.Addr().String(), t.TempDir()
	nowhere, garbage, unreachable := filepath.Join(dir, "nowhere"), written(t, "{{{ no yaml"), unreachableKubeconfig(t)
	testBadInput(t, map[string]badInput{
		"UnreachableWebhook": {args: []string{"webhook", "--kubeconfig=" + unreachable, "--cert-dir=" + the.certs, "--bind-address=127.0.0.1:0"},
			code: 1, want: "https://127.0.0.1:1"},
		"UnreachableGate": {args: []string{"gate", "--kubeconfig=" + unreachable}, code: 1, want: "--kubeconfig"},
		"NoKubeconfig": {args: []string{"webhook", "--kubeconfig=" + nowhere, "--cert-dir=" + the.certs}, code: 1,
			want: "--kubeconfig"},
		"NoKubeconfigAtAll": {args: []string{"webhook", "--cert-dir=" + the.certs}, code: 1, want: "--kubeconfig"},
		"GarbageKubeconfig": {args: []string{"gate", "--kubeconfig=" + garbage}, code: 1, want: "--kubeconfig"},
		"NoCertDir": {args: []string{"webhook", "--kubeconfig=" + the.kubeconfig, "--bind-address=127.0.0.1:0"}, code: 1,
			want: "--cert-dir"},
		"NoCertificate":       {args: webhookWith("--cert-dir=" + dir), code: 1, want: "tls.crt"},
		"GarbageCertificate":  {args: webhookWith("--cert-dir=" + garbageCerts(t)), code: 1, want: "--cert-dir"},
		"NotifyNoCertificate": {args: []string{"notify", "log", "--bind-address=127.0.0.1:0"}, code: 1, want: "--cert-dir"},
		"FunctionNoCerts":     {code: 2, want: "--tls-certs-dir"},
		"FunctionNoCertFile":  {args: []string{"--tls-certs-dir=" + dir}, code: 1, want: "--tls-certs-dir"},
		"FunctionTakenPort":   {args: []string{"--insecure", "--metrics-bind-address=0", "--address=" + taken}, code: 1, want: taken},
		"FunctionTakenMetrics": {args: []string{"--insecure", "--address=127.0.0.1:0", "--metrics-bind-address=" + taken}, code: 1,
			want: "--metrics-bind-address"},
		"TakenPort":        {args: webhookWith("--bind-address=" + taken), code: 1, want: "--bind-address"},
		"TakenMetrics":     {args: webhookWith("--metrics-bind-address=" + taken), code: 1, want: "--metrics-bind-address"},
		"TakenProbes":      {args: webhookWith("--health-probe-bind-address=" + taken), code: 1, want: "--health-probe-bind-address"},
		"GateTakenMetrics": {args: gateWith("--metrics-bind-address=" + taken), code: 1, want: "--metrics-bind-address"},
		"GateTakenProbes":  {args: gateWith("--health-probe-bind-address=" + taken), code: 1, want: "--health-probe-bind-address"},
		"NotifyTakenPort": {args: []string{"notify", "log", "--cert-dir=" + the.certs, "--bind-address=" + taken}, code: 1,
			want: "--bind-address"},
		"NoAddress": {args: webhookWith("--bind-address=here"), code: 1, want: "--bind-address"},
		"NoPort":    {args: webhookWith("--bind-address=127.0.0.1:http-or-so"), code: 1, want: "--bind-address"},
	})
}

// TestBadFlags: flags and arguments that do not exist, and values that flags do not have.
func TestBadFlags(t *testing.T) {
	t.Parallel()
	nowhere, garbage := filepath.Join(t.TempDir(), "nowhere"), written(t, "{{{ no yaml")
	testBadInput(t, map[string]badInput{
		"UnknownFlag":          {args: []string{"--nonsense"}, code: 2, want: "--help"},
		"UnknownFlagWebhook":   {args: []string{"webhook", "--nonsense"}, code: 2, want: "kausality webhook --help"},
		"UnknownFlagNotifyLog": {args: []string{"notify", "log", "--nonsense"}, code: 2, want: "kausality notify log --help"},
		"UnknownShorthand":     {args: []string{"gate", "-z"}, code: 2, want: "--help"},
		"UnknownSubcommand":    {args: []string{"frobnicate"}, code: 2, want: `"frobnicate"`},
		"UnknownBackend":       {args: []string{"notify", "pigeon"}, code: 2, want: `"pigeon"`},
		"NoBackend":            {args: []string{"notify"}, code: 2, want: "--help"},
		"ArgumentTooMany":      {args: []string{"webhook", "now"}, code: 2, want: `"now"`},
		"VersionArgument":      {args: []string{"version", "now"}, code: 2, want: `"now"`},
		"NoDuration":           {args: webhookWith("--settle-grace=soon"), code: 2, want: "--settle-grace"},
		"FlagWithoutValue":     {args: []string{"webhook", "--kubeconfig"}, code: 2, want: "--kubeconfig"},
		"Mode":                 {args: webhookWith("--default-mode=strict"), code: 2, want: `log or enforce, not "strict"`},
		"ModeGate":             {args: gateWith("--default-mode=strict"), code: 2, want: `log or enforce, not "strict"`},
		"Identify":             {args: webhookWith("--identify-controller=guess"), code: 2, want: "--identify-controller"},
		"ExpectUntil":          {args: webhookWith("--expect-until=monday"), code: 2, want: "--expect-until"},
		"RefusalStatus":        {args: webhookWith("--composed-refusal-status=418"), code: 2, want: "--composed-refusal-status"},
		"PendingDrift":         {args: webhookWith("--on-pending-drift=shrug"), code: 2, want: "--on-pending-drift"},
		"ControllerUsers":      {args: webhookWith("--controller-users=("), code: 2, want: "--controller-users"},
		"GateClosed":           {args: webhookWith("--gate-closed=Create"), code: 2, want: "--gate-closed"},
		"ReportPlainHTTP":      {args: webhookWith("--drift-webhook-url=http://127.0.0.1:1"), code: 2, want: "https"},
		"ReportNoURL":          {args: webhookWith("--drift-webhook-url=https://"), code: 2, want: "https"},
		"ReportCAMissing": {args: webhookWith("--drift-webhook-url=https://127.0.0.1:1", "--drift-webhook-ca-file="+nowhere),
			code: 2, want: "--drift-webhook-ca-file"},
		"ReportCAGarbage": {args: webhookWith("--drift-webhook-url=https://127.0.0.1:1", "--drift-webhook-ca-file="+garbage),
			code: 2, want: "has no certificate"},
	})
}

// TestBadManifests: flags of manifests that cannot be rendered.
func TestBadManifests(t *testing.T) {
	t.Parallel()
	nowhere, garbage := filepath.Join(t.TempDir(), "nowhere"), written(t, "{{{ no yaml")
	testBadInput(t, map[string]badInput{
		"ManifestsURL":        {args: manifestsWith("--webhook-url=http://127.0.0.1"), code: 2, want: "--webhook-url"},
		"ManifestsNoURL":      {args: []string{"manifests"}, code: 2, want: "--webhook-url"},
		"ManifestsCAMissing":  {args: manifestsWith("--ca-file=" + nowhere), code: 1, want: "--ca-file"},
		"ManifestsCAGarbage":  {args: manifestsWith("--ca-file=" + garbage), code: 2, want: "PEM"},
		"ManifestsResource":   {args: manifestsWith("--resources=Deployment.apps"), code: 2, want: "--resources"},
		"ManifestsEverything": {args: manifestsWith("--resources=*.*"), code: 2, want: "--resources"},
		"ManifestsNodes":      {args: manifestsWith("--resources=nodes"), code: 2, want: "--resources"},
		"ManifestsMode":       {args: manifestsWith("--default-mode=strict"), code: 2, want: "--default-mode"},
		"ManifestsPolicy":     {args: manifestsWith("--failure-policy=maybe"), code: 2, want: "--failure-policy"},
	})
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
