// Package choicetest tests that a program accepts what the help of its flags advertises.
package choicetest
