// Package reference generates the pages of docs that list the commands of a
// program with their flags, and compares them with the stored pages. Only tests
// of the programs use it: they choose the commands of a page and their headings,
// this package formats them.
package reference
