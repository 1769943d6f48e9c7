//go:build !linux

package checkplan

import "syscall"

// endsWithParent does nothing on this system.
func endsWithParent() *syscall.SysProcAttr { return nil }
