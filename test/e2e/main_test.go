package e2e

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets the scenarios of the gate run several at a time: they mostly wait.
// Tests that start a control plane run one after the other.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
