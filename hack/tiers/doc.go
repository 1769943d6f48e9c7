// Package tiers has a test and no code: what test/packages.tsv leaves to make
// test-more is listed in docs/testing.md with the reason. It is here, and not with
// the runner in test/image, since the go command would repeat the result of a test
// there after a change of these files, which are not in its module.
package tiers
