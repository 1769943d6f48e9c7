// Command figures compares the size of the product with hack/figures/limits.tsv:
//
//	go run ./hack/figures             # what crosses a limit, as its test does in make lint
//	go run ./hack/figures --update    # tightens limits to what the code is now
//
// A kind of figure is
//
//   - lines of a package, of any kind;
//   - methods of a type;
//   - fields of a struct, an embedded one being one;
//   - writers of a field: the functions that assign to it where another function
//     can see it;
//   - comments in a directory of the root or of internal: lines with nothing but a comment, in
//     1,000 lines of comments and code.
//
// The product is every Go file outside of examples/, hack/ and test/ that is no test and not
// generated, also where only tests import its package. The length and the complexity of functions, and the length of lines,
// are golangci-lint's.
//
// A function writes a field by an assignment to it, to a part or to an element of
// it, or by taking its address where it is no struct; and all fields of a struct
// that it replaces (*x = *y). What no other function can see is no write: a literal
// of a struct, and an assignment to a struct in a variable of the function. Calls of
// a field's methods are ignored, and so is reflection. Fields of api/, which describe
// objects, have no limit of writers.
//
// A limit is 5 % above the value that it was set from, rounded up, for lines to full
// tens; or 10 % below a share of comments. One that is looser has a reason that begins
// with the limit, so that another limit needs another reason. The name * is for the
// types and fields that have no line. --update never loosens a limit.
package main
