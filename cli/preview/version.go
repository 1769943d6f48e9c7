package preview

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"

	"k8s.io/apimachinery/pkg/util/version"
)

// Versions of the crossplane CLI whose render runs a pipeline by itself, as
// docs/kubectl.md has them: from oldest up to newest, both included. Later ones
// also need a Crossplane binary.
var oldest, newest = version.MustParseGeneric("1.20"), version.MustParseGeneric("2.2")

var versionPattern = regexp.MustCompile(`\bv(\d{1,6}\.\d{1,6})\.\d`)

// Supported is an error for a crossplane CLI of an unsupported version. One that
// does not report its version is tried.
func Supported(ctx context.Context, program string) error {
	out, err := exec.CommandContext(ctx, program, "version", "--client").CombinedOutput()
	if err != nil {
		return nil //nolint:nilerr // Its render shows what it supports.
	}
	return supported(program, string(out))
}

// supported reads the version from the output of the program.
func supported(program, output string) error {
	m := versionPattern.FindStringSubmatch(output)
	if m == nil {
		return nil
	}
	is, err := version.ParseGeneric(m[1])
	if err != nil {
		return fmt.Errorf("cannot read the version of %s: %w", program, err)
	}
	if is.LessThan(oldest) || newest.LessThan(is) {
		return fmt.Errorf("%s is version %s; preview works with the crossplane CLI of versions %s to %s, whose render runs the pipeline by itself: "+
			"name one with --crossplane", program, is, oldest, newest)
	}
	return nil
}
