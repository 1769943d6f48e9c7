// Command figures prints the figures the code base is held to: the size of the root packages, the
// length of functions, the share of comments, and how much state the steps of a decision share.
//
//	go run ./hack/figures [--root DIR] [--list]
//
// It parses the source (go/ast) and type-checks nothing. Product code is every Go file outside test/,
// hack/, *_test.go and packages of fixtures, which only tests import; generated files count nowhere. A comment line is a line with nothing but a
// comment; licence headers are left out. Its share is of the lines of comments and code; the second
// value is of all lines. A function is as long as the lines from func to its closing brace.
//
// The steps of a decision are the elements of the variable steps of package admission. A step writes
// a field if it, or a method of the same type that it calls, directly or not, assigns to it.
//
// With --list it also names the longest functions, the fields that more than two steps write and the
// test files with the longest lines.
package main
