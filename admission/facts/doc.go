// Package facts collects what is known of a request before its parent is read: the kind and the settings of the object, the
// mode, the field manager, the desired state without the mask of the gate, what changes, and which parent the object names. Facts
// are collected once. ParentOfApply alone modifies them: where the stored labels of a child of kro turn out to name no parent.
// Without collects those of a part of a change. ReadParent reads the parent, where it references the object in turn.
package facts
