// Package page is a web page on which users look at pending changes and decide about them (KR-17-12 to KR-17-18). What is shown and what an action
// means is decided by package channel; this one reads the cluster, renders HTML on the server, and writes as the user of its configuration.
//
//   - Page is the handler. It serves the holder of one link, which begins a session and no other client: each request is checked for host, session
//     and, where it writes, origin and the session's token.
//   - reader lists what waits, and keeps it for some seconds or, while a page is open, as long as watches report nothing; what a decision is about is
//     always read again.
//   - streams signal open pages, which load themselves then. Without JavaScript they are as they were loaded.
//
// It decides nothing: admission and the rights of the user do.
package page
