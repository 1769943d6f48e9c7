// Command summary runs the phases of `make test` and adds up their results.
//
//	summary phases [--make MAKE] [--done DIR --version VERSION] TARGET…
//	summary gotest [-C DIR] [go test flags] PACKAGES…
//
// phases makes one target after the other, also after a failure, and ends with a
// table, every failure and skip by name, and a line
// "N passed, N failed, N skipped". It fails if anything failed. With --done it
// notes in DIR which phases passed, and does not run them again for the same
// VERSION: a run that was interrupted, or in which a phase failed, is resumed.
//
// gotest runs go test, shows a line for each package and the output of tests
// that fail or are skipped (with -v, of all), and passes the outcomes to phases. It
// counts tests without subtests; a package that fails without a failing test
// (it does not build, it panics) counts as one failure. A phase without tests
// counts as one check.
package main
