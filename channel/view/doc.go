// Package view is what one user sees of pending changes, and decides about them, for renderers that run as that user (KR-17-01, KR-17-12): the page and
// the terminal. What is shown and what an action means is decided by package channel; this one reads the cluster, and writes, with the rights of the user.
//
//   - Pending lists what waits by its cause, and keeps it for some seconds or, while Follow runs, as long as watches report nothing; what a decision is
//     about is always read again.
//   - Change, Object and Coverage are read when they are shown.
//   - Confirm shows what an action would do and write; Decide takes it, if what is stored then is what was shown.
//
// It renders nothing, and decides nothing: admission and the rights of the user do.
package view
