// Command diagram writes what docs/gate.md shows of the gate's machine: the table
// of transitions and its picture, docs/images/gate.svg. Both are made from
// gatestates.Transitions alone, so that they match the code; the positions of the
// states in the picture are set here.
package main
