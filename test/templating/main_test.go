package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	cases := map[string]struct {
		args []string
		env  string
		want options
		err  string
	}{
		"Defaults":    {args: []string{"--tls-certs-dir=d"}, want: options{network: "tcp", address: ":9443", certsDir: "d"}},
		"Environment": {env: "e", want: options{network: "tcp", address: ":9443", certsDir: "e"}},
		"Everything":  {args: []string{"--debug", "--network", "tcp4", "--address=127.0.0.1:1", "--insecure"}, want: options{debug: true, network: "tcp4", address: "127.0.0.1:1", insecure: true}},
		"UnknownFlag": {args: []string{"--bogus"}, err: "flag provided but not defined: -bogus"},
		"Argument":    {args: []string{"--insecure", "extra"}, err: `unexpected argument "extra"`},
		"NoIdentity":  {err: "either --tls-certs-dir or --insecure is required"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parse(tc.args, func(string) string { return tc.env })
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Fatalf("want error %q, got %v", tc.err, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(options{})); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
		})
	}
}
