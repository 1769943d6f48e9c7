package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever is wrong, there is one line that says what, and the exit code tells
// a wrong command line from everything else.
func TestBadInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("kind: ConfigMap\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		args []string
		code int
		want string
	}{
		"Command":       {[]string{"explode"}, 2, `unknown command "explode"`},
		"Flag":          {[]string{"trace", "--depth=3", xr}, 2, "unknown flag: --depth"},
		"NoObject":      {[]string{"trace"}, 2, "name an object as TYPE/NAME"},
		"OnlyAType":     {[]string{"trace", "xdatabase"}, 2, `"xdatabase" is no object`},
		"TwoObjects":    {[]string{"trace", xr, "xdatabase/other"}, 1, `"other" not found`},
		"UnknownType":   {[]string{"trace", "xcastle/orders"}, 1, "the server doesn't have a resource type"},
		"UnknownObject": {[]string{"explain", "xdatabase/nothing"}, 1, `"nothing" not found`},
		"Output":        {[]string{"pending", "-o", "xml"}, 2, "--output must be"},
		"Mode":          {[]string{"approve", xr, "--mode", "twice"}, 2, "--mode must be once, generation or always"},
		"Digest":        {[]string{"approve", xr, "--digest", "abc"}, 2, "16 hexadecimal digits"},
		"DigestAndAny":  {[]string{"approve", xr, "--digest", digest(1), "--any"}, 2, "give one"},
		"External":      {[]string{"approve", xr, "--any", "--external", "Destroy"}, 2, "--external must be"},
		"WaitAny":       {[]string{"approve", xr, "--any", "--wait"}, 2, "--wait needs differences"},
		"UnknownID":     {[]string{"approve", digest(1)}, 1, "there is no drift " + digest(1)},
		"Mixed":         {[]string{"approve", digest(1), xr}, 2, "give ids or objects, not both"},
		"NoParent":      {[]string{"approve", xr, "--any"}, 1, "has no controlling parent"},
		"DryRun":        {[]string{"freeze", xr, "--dry-run=maybe"}, 2, "--dry-run must be none, client or server"},
		"NoReason":      {[]string{"reject", xr}, 2, "--reason is required"},
		"SelectNames":   {[]string{"freeze", xr, "-l", "team=shop"}, 2, "--selector needs a TYPE and no names"},
		"SelectNothing": {[]string{"freeze", "--all"}, 2, "--all needs a TYPE and no names"},
		"SelectTwice":   {[]string{"unfreeze", "xdatabases", "--all", "-l", "team=shop"}, 2, "give one"},
		"SelectNone":    {[]string{"snooze", "xdatabases", "-l", "team=none", "--for", "1h"}, 1, "there are no such xdatabases in namespace default"},
		"SelectBadly":   {[]string{"unfreeze", "xdatabases", "-l", "=="}, 2, "--selector: "},
		"ApproveAll":    {[]string{"approve", "xdatabases", "--all"}, 2, "give no arguments and no --selector with it"},
		"RejectAll":     {[]string{"reject", "--all", "--reason", "x"}, 1, "nothing waits for approval in namespace default"},
		"ApproveLabels": {[]string{"approve", "xdatabases", "-l", "!team"}, 1, "about what is selected (1 object)"},
		"UngateNone":    {[]string{"ungate"}, 2, "or give --all"},
		"RemovalOfOne":  {[]string{"ungate", xr, "--for-removal"}, 2, "give --all with it"},
		"UngateXR":      {[]string{"ungate", xr}, 1, "it is not masked"},
		"Withdraw":      {[]string{"reject", xr, "--withdraw", "--reason", "x"}, 2, "give no --reason"},
		"SnoozeNothing": {[]string{"snooze", xr}, 2, "give one of --for, --until and --off"},
		"SnoozePast":    {[]string{"snooze", xr, "--until", "2020-01-01T00:00:00Z"}, 2, "is not in the future"},
		"SnoozeUntil":   {[]string{"snooze", xr, "--until", "tomorrow"}, 2, "--until must be a time"},
		"Patch":         {[]string{"explain", xr, "--patch", "[1]"}, 2, "--patch must be an object"},
		"PatchName":     {[]string{"explain", xr, "--patch", "metadata: {name: x}"}, 2, "must not change kind, name or namespace"},
		"DefaultMode":   {[]string{"explain", xr, "--default-mode", "soft"}, 2, "--default-mode must be log or enforce"},
		"Kubeconfig":    {[]string{"trace", xr, "--kubeconfig", "/nothing/there"}, 1, "/nothing/there"},
		"Server":        {[]string{"trace", xr, "--server", "https://127.0.0.1:1"}, 1, "refused"},
		"NoComposition": {[]string{"preview", file}, 2, "it is no Composition"},
		"NoFile":        {[]string{"preview", "/nothing/there"}, 2, "cannot read the Composition"},
		"Arguments":     {[]string{"coverage", "all"}, 2, `unexpected argument "all"`},
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
