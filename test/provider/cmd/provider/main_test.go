package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExecuteRefuses(t *testing.T) {
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte("not: [a kubeconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	ok := []string{"run", "--kubeconfig=" + kubeconfig, "--cloud-url=http://127.0.0.1:1"}
	cases := map[string]struct {
		args []string
		code int
		want string
	}{
		"NoCommand":      {code: 2, want: "provider: a command is required: cloud, run or terraform (see provider --help)"},
		"UnknownCommand": {args: []string{"fly"}, code: 2, want: `provider: unknown command "fly": want cloud, run or terraform (see provider --help)`},
		"UnknownFlag":    {args: []string{"run", "--bogus"}, code: 2, want: "provider run: flag provided but not defined: -bogus (see provider run --help)"},
		"CloudFlag":      {args: []string{"cloud", "--bogus=1"}, code: 2, want: "provider cloud: flag provided but not defined: -bogus (see provider cloud --help)"},
		"Argument":       {args: []string{"cloud", "extra"}, code: 2, want: `provider cloud: unexpected argument "extra" (see provider cloud --help)`},
		"LogSize":        {args: []string{"cloud", "--log-size=0"}, code: 2, want: "provider cloud: --log-size must be at least 1 (see provider cloud --help)"},
		"NoKubeconfig":   {args: []string{"run"}, code: 2, want: "provider run: --kubeconfig is required (see provider run --help)"},
		"KubeconfigGone": {args: []string{"run", "--kubeconfig=" + dir + "/absent"}, code: 2,
			want: "provider run: cannot read --kubeconfig " + dir + "/absent: no such file (see provider run --help)"},
		"NoCloud": {args: ok[:2], code: 2,
			want: `provider run: --cloud-url is required and must be like http://127.0.0.1:9000, not "" (see provider run --help)`},
		"CloudURL": {args: append(ok[:2:2], "--cloud-url=127.0.0.1:9000"), code: 2,
			want: `provider run: --cloud-url is required and must be like http://127.0.0.1:9000, not "127.0.0.1:9000" (see provider run --help)`},
		"Rate": {args: append(ok, "--max-reconcile-rate=0"), code: 2,
			want: "provider run: --max-reconcile-rate must be at least 1 (see provider run --help)"},
		"Interval": {args: append(ok, "--poll-interval=0s"), code: 2, want: "provider run: durations must be positive (see provider run --help)"},
		"Conditions": {args: append(ok, "--async-conditions=some"), code: 2,
			want: `provider run: --async-conditions must be all or last, not "some" (see provider run --help)`},
		"Falsify": {args: append(ok, "--falsify=shop"), code: 2,
			want: `provider run: --falsify must be like NAMESPACE=HOW, with one of [ahead flapping stale], not "shop" (see provider run --help)`},
		"NoProgram": {args: []string{"terraform", "--kubeconfig=" + kubeconfig, "--dir=" + dir}, code: 2,
			want: "provider terraform: --program and --dir are required (see provider terraform --help)"},
		"BadKubeconfig": {args: ok, code: 1, want: "provider run: cannot use kubeconfig " + kubeconfig + ": "},
		"PortTaken":     {args: []string{"cloud", "--address=256.0.0.1:1"}, code: 1, want: "provider cloud: cannot listen on 256.0.0.1:1: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := execute(context.Background(), tc.args, &stdout, &stderr)
			got := strings.TrimSuffix(stderr.String(), "\n")
			if code != tc.code || !strings.HasPrefix(got, tc.want) || strings.Contains(got, "\n") {
				t.Errorf("want exit status %d and one line %q, got %d and %q", tc.code, tc.want, code, got)
			}
		})
	}
}

func TestExecuteHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"run", "--help"}, {"terraform", "--help"}, {"cloud", "-h"}} {
		var stdout, stderr bytes.Buffer
		if code := execute(context.Background(), args, &stdout, &stderr); code != 0 || stdout.Len() == 0 || stderr.Len() > 0 {
			t.Errorf("%v: want help on stdout, got exit status %d, %q", args, code, stderr.String())
		}
	}
}

// A stopper ends the command once it has printed something.
type stopper struct {
	bytes.Buffer

	stop func()
}

func (s *stopper) Write(b []byte) (int, error) {
	defer s.stop()
	return s.Buffer.Write(b)
}

func TestExecuteCloud(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	stdout, stderr := &stopper{stop: cancel}, &bytes.Buffer{}
	if code := execute(ctx, []string{"cloud", "--address=127.0.0.1:0"}, stdout, stderr); code != 0 || stderr.Len() > 0 {
		t.Errorf("want a clean end, got exit status %d, %q", code, stderr.String())
	}
	if got := stdout.String(); !strings.HasPrefix(got, "cloud listening on http://127.0.0.1:") {
		t.Errorf("want the address, got %q", got)
	}
}
