// Command wordlist reports discouraged words of comments, messages, names and
// documents, with what to write in their place:
//
//	go run ./hack/wordlist            # the whole repository
//	go run ./hack/wordlist fn docs    # two directories
//	go run ./hack/wordlist --counts   # one line per directory
//
// It exits with 1 where it finds something, and its test fails, as part of the
// unit tests. What is reported and may stay is a line of allow.go, with its
// reason.
//
// It reads text alone: comments, string literals of more than one word and
// declared names of Go, and the whole of Markdown, YAML and SVG files. It does
// not read generated files, test data and vendored programs.
package main
