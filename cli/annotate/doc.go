// Package annotate writes what users decide onto the objects that it is about:
// approvals, rejections, freeze and snooze, as docs/annotations.md has them.
//
// An annotation that holds a list belongs to many. Each write is therefore a
// JSON patch that tests the value it was made from, and is made anew from what
// it finds where somebody else was faster: no entry is lost, and none is undone.
// Nothing else of the object is written or tested, so that busy controllers do
// not get in the way. Entries that are there already are not written again.
//
// What a change would do can be shown first: its Differences. AsShown then writes
// that and nothing else.
//
// The package decides nothing about changes, and reads no clock.
package annotate
