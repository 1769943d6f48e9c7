// Command summary runs the phases of `make test` and adds up their results.
//
//	summary phases [--make MAKE] [--kept DIR [--resume]] [--passed FILE] [--flaky FILE] [--durations FILE] [--record FILE] TARGET…
//	summary test [-C DIR] [--each [--more]] [--packages "./a ./b"] [--record FILE] [-v] [-- go test flags]
//
// phases makes one target after the other, also after a failure, and ends with a
// table, every failure, flaky test, slow package and skip by name, and a line
// "N passed, N failed, N skipped". It fails if anything failed. With --kept it
// stores what passed on which tree of files, and with --resume it does not run that
// again on the same tree. A whole pass of a commit's tree is appended to the file of
// --passed.
//
// test runs gotestsum and passes the outcomes to phases. Without --each nothing is
// repeated. With it, each package is a process of its own, as many at a time as
// the machine carries and as the record of what they start allows; a test that
// fails is repeated up to twice, and a package that ends without the result of all
// its tests once, whole. A test is repeated with all its subtests, since they may
// build on each other; of a package that is recorded with subtests only those
// that failed are. What passes then is flaky. With --more it runs what the record
// leaves to make test-more, and else all but that. Where more than five fail at first,
// the run fails. It counts tests without subtests; a package that does not build
// counts as one failure. A phase without tests counts as one check.
package main
