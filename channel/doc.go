// Package channel (KR-17-01) is what users are shown of pending changes, and what they can do about them, for every place where they look:
// the terminal of the plugin, its web page, Slack, and others to come. It knows none of them; each renders what it gives.
//
//   - ByCause groups Drifts, and CardOf describes a group: title, causes with their authors, fields, what is missing, and the changes.
//   - ActionsOf a change are what may be done about it, and Decide is the annotation that an action writes, from the Drift that was shown
//     and the one that is stored.
//
// It decides nothing about changes themselves: whether an approval counts is decided where it is admitted. It reads and writes no cluster,
// and its functions are safe for concurrent use. Values are those of the Drifts, which have no secret ones (KR-13-27); it is for the renderer to
// escape what its medium interprets.
package channel
