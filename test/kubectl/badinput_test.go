package kubectl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBadInput: every failure is reported in one line, and the exit code
// distinguishes a wrong command line from all others.
func TestBadInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(file, []byte("kind: ConfigMap\n"), 0o600))
	cases := map[string]struct {
		args []string
		code int
		want string
	}{
		"Command":       {args: []string{"explode"}, code: 2, want: `unknown command "explode"`},
		"Flag":          {args: []string{"trace", "--depth=3", xr}, code: 2, want: "unknown flag: --depth"},
		"NoObject":      {args: []string{"trace"}, code: 2, want: "name an object as TYPE/NAME"},
		"OnlyAType":     {args: []string{"trace", "xdatabase"}, code: 2, want: `"xdatabase" is no object`},
		"TwoObjects":    {args: []string{"trace", xr, "xdatabase/other"}, code: 1, want: `"other" not found`},
		"UnknownType":   {args: []string{"trace", "xcastle/orders"}, code: 1, want: "the server doesn't have a resource type"},
		"UnknownObject": {args: []string{"explain", "xdatabase/nothing"}, code: 1, want: `"nothing" not found`},
		"Output":        {args: []string{"pending", "-o", "xml"}, code: 2, want: "--output must be"},
		"Mode": {args: []string{"approve", xr, "--mode", "twice"}, code: 2,
			want: "--mode must be once, generation or always"},
		"Digest":        {args: []string{"approve", xr, "--digest", "abc"}, code: 2, want: "16 hexadecimal digits"},
		"DigestAndAny":  {args: []string{"approve", xr, "--digest", digest(1), "--any"}, code: 2, want: "give one"},
		"External":      {args: []string{"approve", xr, "--any", "--external", "Destroy"}, code: 2, want: "--external must be"},
		"WaitAny":       {args: []string{"approve", xr, "--any", "--wait"}, code: 2, want: "--wait needs differences"},
		"UnknownID":     {args: []string{"approve", digest(1)}, code: 1, want: "there is no drift " + digest(1)},
		"Mixed":         {args: []string{"approve", digest(1), xr}, code: 2, want: "give ids or objects, not both"},
		"NoParent":      {args: []string{"approve", xr, "--any"}, code: 1, want: "has no controlling parent"},
		"DryRun":        {args: []string{"freeze", xr, "--dry-run=maybe"}, code: 2, want: "--dry-run must be none, client or server"},
		"NoReason":      {args: []string{"reject", xr}, code: 2, want: "--reason is required"},
		"SelectNames":   {args: []string{"freeze", xr, "-l", "team=shop"}, code: 2, want: "--selector needs a TYPE and no names"},
		"SelectNothing": {args: []string{"freeze", "--all"}, code: 2, want: "--all needs a TYPE and no names"},
		"SelectTwice":   {args: []string{"unfreeze", "xdatabases", "--all", "-l", "team=shop"}, code: 2, want: "give one"},
		"SelectNone": {args: []string{"snooze", "xdatabases", "-l", "team=none", "--for", "1h"}, code: 1,
			want: "there are no such xdatabases in namespace default"},
		"SelectBadly": {args: []string{"unfreeze", "xdatabases", "-l", "=="}, code: 2, want: "--selector: "},
		"ApproveAll": {args: []string{"approve", "xdatabases", "--all"}, code: 2,
			want: "give no arguments and no --selector with it"},
		"RejectAll": {args: []string{"reject", "--all", "--reason", "x", "-n", "kube-public"}, code: 1, // changes of other tests wait in default
			want: "nothing waits for approval in namespace kube-public"},
		"UngateNone":    {args: []string{"ungate"}, code: 2, want: "or give --all"},
		"RemovalOfOne":  {args: []string{"ungate", xr, "--for-removal"}, code: 2, want: "give --all with it"},
		"UngateXR":      {args: []string{"ungate", xr}, code: 1, want: "it is not masked"},
		"Withdraw":      {args: []string{"reject", xr, "--withdraw", "--reason", "x"}, code: 2, want: "give no --reason"},
		"SnoozeNothing": {args: []string{"snooze", xr}, code: 2, want: "give one of --for, --until and --off"},
		"SnoozePast":    {args: []string{"snooze", xr, "--until", "2020-01-01T00:00:00Z"}, code: 2, want: "is not in the future"},
		"SnoozeUntil":   {args: []string{"snooze", xr, "--until", "tomorrow"}, code: 2, want: "--until must be a time"},
		"Patch":         {args: []string{"explain", xr, "--patch", "[1]"}, code: 2, want: "--patch must be an object"},
		"PatchName": {args: []string{"explain", xr, "--patch", "metadata: {name: x}"}, code: 2,
			want: "must not change kind, name or namespace"},
		"DefaultMode": {args: []string{"explain", xr, "--default-mode", "soft"}, code: 2,
			want: "--default-mode must be log or enforce"},
		"Kubeconfig":    {args: []string{"trace", xr, "--kubeconfig", "/nothing/there"}, code: 1, want: "/nothing/there"},
		"Server":        {args: []string{"trace", xr, "--server", "https://127.0.0.1:1"}, code: 1, want: "refused"},
		"NoComposition": {args: []string{"preview", file}, code: 2, want: "it is no Composition"},
		"NoFile":        {args: []string{"preview", "/nothing/there"}, code: 2, want: "cannot read the Composition"},
		"NoNamespace":   {args: []string{"pending", "-n", "nosuch"}, code: 1, want: `there is no namespace "nosuch"`},
		"Extra":         {args: []string{"explain", xr, "extra"}, code: 2, want: `"extra" does not fit "xdatabase/orders": name objects as TYPE/NAME`},
		"Arguments":     {args: []string{"coverage", "all"}, code: 2, want: `unexpected argument "all"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := the.pipe(t, tc.args...)
			if r.code != tc.code || !strings.Contains(r.out, tc.want) {
				t.Errorf("want exit code %d and %q, got %d:\n%s", tc.code, tc.want, r.code, r.out)
			}
			if strings.Count(r.out, "\n") != 1 || !strings.HasPrefix(r.out, "error: ") {
				t.Errorf("not one line of an error:\n%s", r.out)
			}
		})
	}
}

// nothing waits at the beginning of the story, for what is selected by labels.
func nothing(t *testing.T) {
	r := the.pipe(t, "approve", "xdatabases", "-l", "!team")
	if r.code != 1 || !strings.Contains(r.out, "about what is selected (1 object)") {
		t.Errorf("got %d:\n%s", r.code, r.out)
	}
}
