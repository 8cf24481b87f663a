package cel

import "syscall"

const stop = syscall.SIGSTOP
