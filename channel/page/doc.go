// Package page is a web page on which users look at pending changes and decide about them (KR-17-12 to KR-17-17). What is shown and what an action
// means is decided by package channel; this one reads the cluster, renders HTML on the server, and writes as the user of its configuration.
//
//   - Page is the handler. It serves the holder of one link, which begins a session and no other client: each request is checked for host, session
//     and, where it writes, origin and the session's token.
//   - reader lists what waits, and keeps it for some seconds; what a decision is about is always read again.
//
// It works without JavaScript and has none. It decides nothing: admission and the rights of the user do.
package page
