// Package wait has the waiting of all tests on a control plane: For a condition,
// Often for one that is checked hundreds of times, Receive for a channel, and Pause
// where there is no condition. A wait that fails ends the test with what it waited for and the last
// error, and at once where a process ends that the tests rely on.
//
// Times are those of an idle machine; controlplane.Patience extends them on a busy
// one. Programs without a *testing.T use controlplane.Eventually.
package wait
