// Package reference writes the pages of docs that list the commands of a program
// with their flags, and compares them with what is there. It is for the tests of
// the programs alone: which commands a page has, and under which names, is theirs
// to say; what a command's part of it looks like is said here.
package reference
