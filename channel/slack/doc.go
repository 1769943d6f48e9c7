// Package slack shows pending changes in a channel of Slack and carries out what users decide there by buttons (KR-17-01 to KR-17-11,
// KR-17-25 to KR-17-27). What is shown and what a click means is in package channel; this package renders that in Block Kit, posts it, and
// writes decisions as the user who made them.
//
// Every replica holds a Socket Mode connection, or takes signed requests by HTTP, and stores the clicks that it receives, as ConfigMaps,
// before it acknowledges them. The leader posts and updates messages, records in each Drift what Slack has accepted, and works the stored
// clicks off. All state is in the API server, so that any replica may end at any moment: docs/design/0012-slack.md.
//
// Nothing waits for it: webhook and gate do not know of it, and a Slack that is away delays messages and nothing else.
package slack
