// Package annotation reads the structured values of annotations, which any user
// with edit rights on an object may have written, within bounds (KR-13-06): what
// is too large, nested too deeply or uses YAML anchors is an error before it is
// decoded. A YAML alias repeats what it refers to when the value is converted to
// JSON: 100 KiB of annotation would become gigabytes of memory.
//
// The package knows no annotation by name and decides nothing.
package annotation
