package choicetest

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kausality-io/function-kausality/cli/choice"
)

// Program is a program whose flags are tested. It needs no cluster to refuse a value.
type Program struct {
	// Root returns the program, another one each time. What it prints is not read.
	Root func(*testing.T) *cobra.Command
	// Refused reports whether an error is about the command line.
	Refused func(error) bool
	// Args of a command by its path, or of a command with a flag, as in "history --since", without which no value of a
	// flag can be checked.
	Args map[string]string
	// Common arguments of all commands.
	Common []string
	// FreeText are patterns of the flags that take any text, or the name of what a file or a cluster has: their help
	// advertises no value.
	FreeText []string
	// Instead of the examples in the help of a flag: those that can be given, where these are parts of one, or change
	// with time.
	Instead map[string][]string
}

var (
	shown    = regexp.MustCompile(`as in ([^;]+?)(?:[;,] with|;|\.$|$)`)
	between  = regexp.MustCompile(`, | or `)
	bounds   = regexp.MustCompile(`\b(\d+) to (\d+)\b`)
	nothing  = regexp.MustCompile(`\b0 (?:lists|for) all`)
	nonsense = "no-such-value"
)

// advertised values of a flag: those that it lists, and the examples and bounds in its help.
func (p Program) advertised(f *pflag.Flag) []string {
	if instead := p.Instead[f.Name]; instead != nil {
		return instead
	}
	out := choice.Of(f)
	if m := shown.FindStringSubmatch(f.Usage); m != nil {
		for _, v := range between.Split(m[1], -1) {
			out = append(out, strings.TrimPrefix(v, "--"+f.Name+"="))
		}
	}
	if m := bounds.FindStringSubmatch(f.Usage); m != nil {
		out = append(out, m[1:]...)
	}
	if nothing.MatchString(f.Usage) {
		out = append(out, "0")
	}
	if f.NoOptDefVal != "" && f.Value.Type() != "bool" && !slices.Contains(out, f.NoOptDefVal) {
		out = append(out, f.NoOptDefVal)
	}
	return out
}

// Test tests that each advertised value of each flag is accepted, that a choice refuses any other value and names its own,
// and that a flag with a text advertises values or is known to be free. There are at least so many values.
func (p Program) Test(t *testing.T, least int) {
	t.Helper()
	n, free := 0, slices.Clone(p.FreeText)
	p.each(p.Root(t), func(cmd *cobra.Command, f *pflag.Flag) {
		values := p.advertised(f)
		for _, v := range values {
			n++
			if err := p.run(t, cmd, f, v); p.Refused(err) {
				t.Errorf("%s --%s=%s: %v", cmd.CommandPath(), f.Name, v, err)
			}
		}
		if choice.Of(f) != nil {
			p.refuses(t, cmd, f)
		}
		if len(values) > 0 || !strings.HasPrefix(f.Value.Type(), "string") {
			return
		}
		named := func(pattern string) bool { is, err := path.Match(pattern, f.Name); return is && err == nil }
		if !slices.ContainsFunc(p.FreeText, named) {
			t.Errorf("%s --%s advertises no value, and is not known to take any text: %s", cmd.CommandPath(), f.Name, f.Usage)
		}
		free = slices.DeleteFunc(free, named)
	})
	if n < least {
		t.Errorf("only %d values were given", n)
	}
	if len(free) > 0 {
		t.Errorf("no flags that take any text: %v", free)
	}
}

// refuses any other value than those of a choice, which help and the error name.
func (p Program) refuses(t *testing.T, cmd *cobra.Command, f *pflag.Flag) {
	t.Helper()
	err := p.run(t, cmd, f, nonsense)
	if !p.Refused(err) || !strings.HasPrefix(err.Error(), "--"+f.Name+" must be ") || !strings.Contains(err.Error(), nonsense) {
		t.Errorf("%s --%s=%s: %v", cmd.CommandPath(), f.Name, nonsense, err)
		return
	}
	for _, v := range choice.Of(f) {
		if !strings.Contains(f.Usage, v) || !strings.Contains(err.Error(), v) {
			t.Errorf("%s --%s: %s is missing in its help or in its error: %s; %v", cmd.CommandPath(), f.Name, v, f.Usage, err)
		}
	}
}

// each flag of a command and those below it, each where it is declared.
func (p Program) each(cmd *cobra.Command, do func(*cobra.Command, *pflag.Flag)) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { do(cmd, f) })
	for _, sub := range cmd.Commands() {
		p.each(sub, do)
	}
}

// run runs a command with a value of a flag.
func (p Program) run(t *testing.T, cmd *cobra.Command, f *pflag.Flag, value string) error {
	t.Helper()
	root := p.Root(t)
	words := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), root.CommandPath()), " ")
	args, known := p.Args[words+" --"+f.Name]
	if !known {
		args = p.Args[words]
	}
	root.SetArgs(slices.Concat(strings.Fields(words), strings.Fields(args), []string{"--" + f.Name + "=" + value}, p.Common))
	return root.ExecuteContext(t.Context())
}
