// Package annotate writes the decisions of users onto objects: approvals,
// rejections, freezes and snoozes, in the forms of docs/annotations.md.
//
// An annotation that holds a list has entries of several users. Each write is
// therefore a JSON patch that tests the value it is based on, and is repeated
// with the new value after a conflict: no entry is lost, and none is reverted.
// Nothing else of the object is written or tested, so that status writes of busy
// controllers cause no conflicts. Entries that exist are not written again.
//
// What a change would do can be shown first, by its Differences; AsShown then
// writes exactly that.
//
// The package decides nothing about changes, and reads no clock.
package annotate
