// Package terminal is the terminal in which users look at pending changes and decide about them (KR-17-20 to KR-17-24). What is shown and what an action
// means is decided by package channel, and read and carried out by package view; this one renders lines of text, and reads keys.
//
//   - A screen is a list of items, each of some lines; what is not visible is not made into lines. Run shows screens in full, and live; Plain prints them
//     line by line, and prompts, for screen readers and terminals that cannot do more.
//   - What comes from the cluster is text: control characters, marks of direction and escape sequences do not reach the terminal, and long texts are cut.
//
// It decides nothing: admission and the rights of the user do.
package terminal
