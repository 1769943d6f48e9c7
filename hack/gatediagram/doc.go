// Command diagram writes what docs/gate.md shows of the gate's machine: the table
// of transitions and its picture, docs/images/gate.svg. Both are made from
// gating.Transitions alone, so that they are what the code does; where
// the states stand in the picture is laid down here.
package main
