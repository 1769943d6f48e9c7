package checkplan

import "syscall"

// endsWithParent stops the program when this process ends without having waited for it, as where a provider kills a run that takes too long:
// it would go on to apply.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
