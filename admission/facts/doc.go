// Package facts collects what is known of a request before its parent is read: the kind and the settings of the object, the
// mode, the field manager, the desired state without the mask of the gate, and what changes. Facts are collected once and not
// modified afterwards. Without collects those of a part of a change.
package facts
