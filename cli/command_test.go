package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kausality-io/function-kausality/cli/choice"
)

func commands(t *testing.T) []*cobra.Command {
	t.Helper()
	cmd, err := NewCommand(genericiooptions.NewTestIOStreamsDiscard(), "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Commands()
}

// TestCommonFlags checks what is true of every command: all print JSON and YAML;
// those that write have a dry run, take groups and ask for confirmation; all
// complete their arguments.
func TestCommonFlags(t *testing.T) {
	writing := []string{"approve", "withdraw", "reject", "freeze", "unfreeze", "snooze", "ungate"}
	uncompleted := []string{"version", "coverage", "approvals", "approvers", "emergency", "preview"} // no arguments, or a file, which the shell completes
	all := commands(t)
	if len(all) != 21 {
		t.Errorf("there are %d commands", len(all))
	}
	for _, c := range all {
		if c.HasSubCommands() || c.Name() == "ui" || c.Name() == "tui" {
			continue // rollout, whose commands are about one object that is named, policy, which reads files, and ui and tui, which show what they have
		}
		o := c.Flags().Lookup("output")
		if o == nil || o.Shorthand != "o" || !slices.Contains(choice.Of(o), "json") || !slices.Contains(choice.Of(o), "yaml") {
			t.Errorf("%s has no -o json|yaml", c.Name())
		}
		dry := c.Flags().Lookup("dry-run")
		if (dry != nil) != slices.Contains(writing, c.Name()) || dry != nil && (dry.DefValue != "none" || dry.NoOptDefVal != "client") {
			t.Errorf("%s: its --dry-run is %+v", c.Name(), dry)
		}
		for _, flag := range []string{"yes", "selector", "all"} {
			want := slices.Contains(writing, c.Name()) && (flag != "selector" || c.Name() != "ungate") || // which finds masked resources by itself
				flag == "selector" && c.Name() == "pending" // which selects changes
			if have := c.Flags().Lookup(flag) != nil; have != want {
				t.Errorf("%s: it has --%s: %t, want %t", c.Name(), flag, have, want)
			}
		}
		if (c.ValidArgsFunction == nil) != slices.Contains(uncompleted, c.Name()) {
			t.Errorf("%s: want completion of its arguments", c.Name())
		}
	}
}

// TestVersion in all formats.
func TestVersion(t *testing.T) {
	for format, want := range map[string]string{"json": `"version": "v1.2.3"`, "yaml": "version: v1.2.3", "": "v1.2.3\n"} {
		streams, _, out, _ := genericiooptions.NewTestIOStreams()
		cmd, err := NewCommand(streams, "v1.2.3")
		if err != nil {
			t.Fatal(err)
		}
		cmd.SetArgs([]string{"version", "--output=" + format})
		if err := cmd.Execute(); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: error %v, output %s", format, err, out)
		}
	}
}

// TestUsageErrors are found without a cluster and give exit code 2.
func TestUsageErrors(t *testing.T) {
	cases := map[string]struct {
		args string
		want string
	}{
		"UnknownCommand":    {args: "aprove", want: `unknown command "aprove"; did you mean "approve"?`},
		"FarCommand":        {args: "banana", want: `unknown command "banana"; see kubectl kausality --help`},
		"PolicyTest":        {args: "policy test rules.yaml", want: "name the files with policies, and the audit log with --events"},
		"PolicyTestAt":      {args: "policy test rules.yaml --events=a --at=monday", want: `--at: "monday" is no time`},
		"UnknownFlag":       {args: "approve --nope", want: "unknown flag: --nope; see kubectl kausality approve --help"},
		"DefaultMode":       {args: "pending --default-mode=off", want: "--default-mode must be log or enforce"},
		"Output":            {args: "version -o xml", want: "--output must be json or yaml"},
		"PendingLimit":      {args: "pending --limit=-1", want: "--limit must not be negative"},
		"PendingSummary":    {args: "pending --summary -o json", want: "--summary and --output exclude each other"},
		"PendingObject":     {args: "pending x/y -A", want: "not both"},
		"PendingSelector":   {args: "pending -l =", want: "--selector: "},
		"ApproveLimit":      {args: "approve --all --limit=-1", want: "--limit must not be negative"},
		"ApproveEverywhere": {args: "approve x/y -A", want: "--all-namespaces and --limit need a selection by flags"},
		"ApproveIDCause":    {args: "approve 0123456789abcdef --cause c", want: "give ids or objects, not both, and no flags"},
		"ApproveAnyCause":   {args: "approve x/y --any --cause c", want: "--cause selects differences that are reported"},
		"ApproveReason":     {args: "approve x/y --reason " + strings.Repeat("r", 254), want: "--reason must have at most 253 bytes"},
		"SnoozeSelector":    {args: "snooze -l a=b --for 1d", want: "--selector needs a TYPE"},
		"BreakGlassReason":  {args: "approve x/y --break-glass=", want: "must have a reason"},
		"BreakGlassMode":    {args: "approve x/y --break-glass r --mode always", want: "it does not go with --any, --digest, --mode, --for or --reason"},
		"BreakGlassAny":     {args: "approve x/y --break-glass r --any", want: "--break-glass approves differences that are reported"},
		"BreakGlassFor":     {args: "approve x/y --break-glass r --for 1h", want: "--break-glass approves differences that are reported"},
		"WithdrawGlass":     {args: "approve x/y --break-glass r --withdraw", want: "--break-glass and --withdraw exclude each other"},
		"WithdrawReason":    {args: "approve x/y --withdraw --reason r", want: "it does not go with other flags of an approval"},
		"WithdrawWait":      {args: "approve x/y --withdraw --wait", want: "it does not go with other flags of an approval"},
		"ApproveFor":        {args: "approve x/y --for=-1h", want: "--for must be more than 0"},
		"ApproveForSoon":    {args: "approve x/y --for soon", want: "must be a period as in 24h, 90m, 1d"},
		"ApproveNothing":    {args: "approve", want: "an id has 16 hexadecimal digits, as kubectl kausality pending lists it"},
		"ApproveNoID":       {args: "approve 12345", want: `"12345" is neither an id nor an object; an id has 16 hexadecimal digits`},
		"ApproveNoIDs":      {args: "approve 12345 67890", want: `"12345" is neither an id nor an object; an id has 16 hexadecimal digits`},
		"WithdrawNoID":      {args: "withdraw 12345", want: "an object is TYPE/NAME: kubectl kausality withdraw 7642947475a29290, or"},
		"RejectNoID":        {args: "reject 12345 --reason r", want: "an object is TYPE/NAME: kubectl kausality reject 7642947475a29290, or"},
		"BreakGlassTwice":   {args: "approve x/y --break-glass r --reason s", want: "for the reason that is its value"},
		"ApproveMode":       {args: "approve x/y --mode=twice", want: "--mode must be once, generation or always"},
		"ApproveDigest":     {args: "approve x/y --digest=zz", want: "16 hexadecimal digits"},
		"ApproveBoth":       {args: "approve x/y --any --digest=1f2e3d4c5b6a7980", want: "--digest and --any exclude each other"},
		"ApproveExternal":   {args: "approve x/y --external=Delete", want: "--external needs --any or --digest"},
		"ApproveVerb": {args: "approve x/y --any --external=Observe",
			want: "--external must be apply, destroy, sync, delete, Create, Update, Delete or *, not \"Observe\""},
		"ApproveWait":       {args: "approve x/y --any --wait", want: "--wait needs differences that are reported"},
		"ApproveAnyAll":     {args: "approve --all --any", want: "--any and --digest need objects"},
		"ApproveAllArgs":    {args: "approve 1f2e3d4c5b6a7980 --all", want: "--all selects everything"},
		"ApproveMixed":      {args: "approve 1f2e3d4c5b6a7980 x/y", want: "give ids or objects, not both"},
		"DryRun":            {args: "freeze x/y --dry-run=maybe", want: "--dry-run must be none, client or server"},
		"FreezeBoth":        {args: "freeze x --all -l a=b", want: "--all and --selector exclude each other"},
		"FreezeNames":       {args: "freeze x/y -l a=b", want: "--selector needs a TYPE and no names"},
		"FreezeLabels":      {args: "freeze x -l =,=", want: "--selector: "},
		"RejectReason":      {args: "reject x/y", want: "--reason is required"},
		"RejectWithdraw":    {args: "reject x/y --withdraw --reason=a", want: "--withdraw removes rejections"},
		"SnoozeNothing":     {args: "snooze x/y", want: "give one of --for, --until and --off"},
		"SnoozeTwice":       {args: "snooze x/y --for=1h --off", want: "give one of --for, --until and --off"},
		"SnoozeTime":        {args: "snooze x/y --until=tomorrow", want: "--until must be a time"},
		"SnoozePast":        {args: "snooze x/y --until=2001-01-01T00:00:00Z", want: "is not in the future"},
		"UngateNothing":     {args: "ungate", want: "name managed resources as TYPE/NAME, or give --all"},
		"UngateRemoval":     {args: "ungate x/y --for-removal", want: "give --all with it"},
		"UngateServer":      {args: "ungate --all --dry-run=server", want: "--dry-run must be none or client"},
		"ExplainType":       {args: "explain xdatabase", want: `"xdatabase" is no object`},
		"ExplainPatch":      {args: "explain x/y --patch=[]", want: "--patch must be an object"},
		"ExplainNoFile":     {args: "explain x/y --patch=@/nowhere", want: "--patch: cannot read it"},
		"PreviewNoFile":     {args: "preview", want: "name the file of a Composition"},
		"PreviewAll":        {args: "preview c.yaml a -A", want: "-A selects all composites"},
		"UIPort":            {args: "ui --port=70000", want: "--port must be from 0 to 65535"},
		"UIArguments":       {args: "ui x", want: `unexpected argument "x"`},
		"CoverageArguments": {args: "coverage x", want: `unexpected argument "x"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			streams, _, out, _ := genericiooptions.NewTestIOStreams()
			cmd, err := NewCommand(streams, "v1.2.3")
			if err != nil {
				t.Fatal(err)
			}
			cmd.SetArgs(append(strings.Fields(tc.args), "--kubeconfig=/nowhere"))
			err = cmd.Execute()
			if usage := (usageError{}); !errors.As(err, &usage) || !strings.Contains(err.Error(), tc.want) || out.Len() > 0 {
				t.Errorf("want a usage error with %q, got %v; output %q", tc.want, err, out)
			}
		})
	}
}
