package integration

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
)

// TestBadInput: each mistake ends in one line that says what to do, with an
// exit code that is not 0 and is 2 for a wrong command line, within 15 seconds.
func TestBadInput(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() }) // after the cases, which run in parallel
	taken, dir := l.Addr().String(), t.TempDir()
	nowhere := filepath.Join(dir, "nowhere")
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	raw, err := os.ReadFile(the.kubeconfig)
	must(t, err)
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
		"UnknownFlag":          {[]string{"--nonsense"}, 2, "--help"},
		"UnknownFlagWebhook":   {[]string{"webhook", "--nonsense"}, 2, "kausality webhook --help"},
		"UnknownFlagNotifyLog": {[]string{"notify", "log", "--nonsense"}, 2, "kausality notify log --help"},
		"UnknownShorthand":     {[]string{"gate", "-z"}, 2, "--help"},
		"UnknownSubcommand":    {[]string{"frobnicate"}, 2, `"frobnicate"`},
		"UnknownBackend":       {[]string{"notify", "pigeon"}, 2, `"pigeon"`},
		"NoBackend":            {[]string{"notify"}, 2, "--help"},
		"ArgumentTooMany":      {[]string{"webhook", "now"}, 2, `"now"`},
		"VersionArgument":      {[]string{"version", "now"}, 2, `"now"`},
		"NoDuration":           {webhook("--settle-grace=soon"), 2, "--settle-grace"},
		"FlagWithoutValue":     {[]string{"webhook", "--kubeconfig"}, 2, "--kubeconfig"},
		"UnreachableWebhook":   {[]string{"webhook", "--kubeconfig=" + unreachable, "--cert-dir=" + the.certs, "--bind-address=127.0.0.1:0"}, 1, "https://127.0.0.1:1"},
		"UnreachableGate":      {[]string{"gate", "--kubeconfig=" + unreachable}, 1, "--kubeconfig"},
		"NoKubeconfig":         {[]string{"webhook", "--kubeconfig=" + nowhere, "--cert-dir=" + the.certs}, 1, "--kubeconfig"},
		"NoKubeconfigAtAll":    {[]string{"webhook", "--cert-dir=" + the.certs}, 1, "--kubeconfig"},
		"GarbageKubeconfig":    {[]string{"gate", "--kubeconfig=" + garbage}, 1, "--kubeconfig"},
		"NoCertDir":            {[]string{"webhook", "--kubeconfig=" + the.kubeconfig, "--bind-address=127.0.0.1:0"}, 1, "--cert-dir"},
		"NoCertificate":        {webhook("--cert-dir=" + dir), 1, "tls.crt"},
		"GarbageCertificate":   {webhook("--cert-dir=" + garbageCerts(t)), 1, "--cert-dir"},
		"NotifyNoCertificate":  {[]string{"notify", "log", "--bind-address=127.0.0.1:0"}, 1, "--cert-dir"},
		"FunctionNoCerts":      {nil, 2, "--tls-certs-dir"},
		"FunctionNoCertFile":   {[]string{"--tls-certs-dir=" + dir}, 1, "--tls-certs-dir"},
		"FunctionTakenPort":    {[]string{"--insecure", "--metrics-bind-address=0", "--address=" + taken}, 1, taken},
		"FunctionTakenMetrics": {[]string{"--insecure", "--address=127.0.0.1:0", "--metrics-bind-address=" + taken}, 1, "--metrics-bind-address"},
		"TakenPort":            {webhook("--bind-address=" + taken), 1, "--bind-address"},
		"TakenMetrics":         {webhook("--metrics-bind-address=" + taken), 1, "--metrics-bind-address"},
		"TakenProbes":          {webhook("--health-probe-bind-address=" + taken), 1, "--health-probe-bind-address"},
		"GateTakenMetrics":     {gate("--metrics-bind-address=" + taken), 1, "--metrics-bind-address"},
		"GateTakenProbes":      {gate("--health-probe-bind-address=" + taken), 1, "--health-probe-bind-address"},
		"NotifyTakenPort":      {[]string{"notify", "log", "--cert-dir=" + the.certs, "--bind-address=" + taken}, 1, "--bind-address"},
		"NoAddress":            {webhook("--bind-address=here"), 1, "--bind-address"},
		"NoPort":               {webhook("--bind-address=127.0.0.1:http-or-so"), 1, "--bind-address"},
		"Mode":                 {webhook("--default-mode=strict"), 2, `log or enforce, not "strict"`},
		"ModeGate":             {gate("--default-mode=strict"), 2, `log or enforce, not "strict"`},
		"Identify":             {webhook("--identify-controller=guess"), 2, "--identify-controller"},
		"ExpectUntil":          {webhook("--expect-until=monday"), 2, "--expect-until"},
		"RefusalStatus":        {webhook("--composed-refusal-status=418"), 2, "--composed-refusal-status"},
		"PendingDrift":         {webhook("--on-pending-drift=shrug"), 2, "--on-pending-drift"},
		"ControllerUsers":      {webhook("--controller-users=("), 2, "--controller-users"},
		"GateClosed":           {webhook("--gate-closed=Create"), 2, "--gate-closed"},
		"ReportPlainHTTP":      {webhook("--drift-webhook-url=http://127.0.0.1:1"), 2, "https"},
		"ReportNoURL":          {webhook("--drift-webhook-url=https://"), 2, "https"},
		"ReportCAMissing":      {webhook("--drift-webhook-url=https://127.0.0.1:1", "--drift-webhook-ca-file="+nowhere), 1, "--drift-webhook-ca-file"},
		"ReportCAGarbage":      {webhook("--drift-webhook-url=https://127.0.0.1:1", "--drift-webhook-ca-file="+garbage), 1, "PEM"},
		"ManifestsURL":         {manifests("--webhook-url=http://127.0.0.1"), 2, "--webhook-url"},
		"ManifestsNoURL":       {[]string{"manifests"}, 2, "--webhook-url"},
		"ManifestsCAMissing":   {manifests("--ca-file=" + nowhere), 1, "--ca-file"},
		"ManifestsCAGarbage":   {manifests("--ca-file=" + garbage), 2, "PEM"},
		"ManifestsResource":    {manifests("--resources=Deployment.apps"), 2, "--resources"},
		"ManifestsEverything":  {manifests("--resources=*.*"), 2, "--resources"},
		"ManifestsNodes":       {manifests("--resources=nodes"), 2, "--resources"},
		"ManifestsMode":        {manifests("--default-mode=strict"), 2, "--default-mode"},
		"ManifestsPolicy":      {manifests("--failure-policy=maybe"), 2, "--failure-policy"},
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
		must(t, os.WriteFile(filepath.Join(dir, f), []byte("hello"), 0o600))
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
	must(t, err)
	return 0, errs.String()
}
