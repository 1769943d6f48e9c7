// Package page is a web page on which users look at pending changes and decide about them (KR-17-12 to KR-17-18). What is shown and what an action
// means is decided by package channel, and read and carried out by package view; this one renders HTML on the server.
//
//   - Page is the handler. It serves the holder of one link, which begins a session and no other client: each request is checked for host, session
//     and, where it writes, origin and the session's token.
//   - streams signal open pages, which load themselves then. Without JavaScript they are as they were loaded.
//
// It decides nothing: admission and the rights of the user do.
package page
