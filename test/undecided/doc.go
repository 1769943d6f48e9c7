// Package undecided has the transport of clients whose requests are sent again where a
// webhook could not decide about them in time, as controllers do (KR-05-04, KR-13-74):
// a test is about what is decided, however busy the machine is.
package undecided
