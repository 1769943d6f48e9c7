// Package slackfake is a Slack for tests: the part of its Web API, of Socket Mode and of signed requests that kausality notify slack uses,
// with Slack's limits, rate limits and errors, against which the client of slack-go works unmodified. test/cmd/fakeslack runs it as a process
// of its own.
//
// Tests drive it over HTTP below /control, as Driver does: they read what was posted, click, and have it fail.
package slackfake
