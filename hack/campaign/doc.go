// Package campaign keeps what campaigns have shown: for each item, such as a seed or a combination of faults, whether it passed, at which
// commit, when, and figures. A result is appended and synced as soon as it is known, so that an interrupted campaign goes on where it
// ended, and an item that was not played has no result.
package campaign
