package reference

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write the reference again")

// Command is a part of a page.
type Command struct {
	Heading  string
	Synopsis string         // what is typed
	Short    string         // what it is for; never empty
	Flags    *pflag.FlagSet // its own; --help and hidden ones are left out
}

// Test that the page in a file is the introduction and the commands in this order;
// -update writes it.
func Test(t *testing.T, file, introduction string, commands []Command) {
	t.Helper()
	var out strings.Builder
	out.WriteString(introduction)
	for _, c := range commands {
		if c.Short == "" {
			t.Errorf("%s has no description", c.Heading)
		}
		c.write(&out)
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil { //nolint:gosec // Part of the repository.
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file) //nolint:gosec // A test names it.
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), out.String()); diff != "" {
		t.Errorf("run make generate; docs/%s is stale (-):\n%s", filepath.Base(file), diff)
	}
}

// inTable is text in a cell.
var inTable = strings.NewReplacer("|", "\\|", "\n", " ")

// write the section of one command: its synopsis and a table of its flags, without
// hidden ones.
func (c Command) write(out *strings.Builder) {
	fmt.Fprintf(out, "\n## %s\n\n`%s`\n\n%s\n", c.Heading, c.Synopsis, c.Short)
	header := "\n| flag | default | meaning |\n|---|---|---|\n"
	c.Flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name, value := "--"+f.Name, ""
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if f.DefValue != "" && f.DefValue != "[]" && f.Value.Type() != "bool" {
			value = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(out, "%s| `%s` | %s | %s |\n", header, name, value, inTable.Replace(f.Usage))
		header = ""
	})
}
