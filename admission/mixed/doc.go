// Package mixed decides about mixed changes: a part of the change was refused as drift before the last intent of the parent,
// while the rest of it carries out that intent (KR-05-55, KR-05-56). Package admission decides about each half as about any other
// change; Join is the table by which the two decisions become one.
package mixed
