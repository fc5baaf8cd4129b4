package bridge

import "io"

// Polled returns in such that a goroutine that waits for it holds no thread, if in is a pipe
// or a socket. Standard input is read by blocking otherwise: the Go scheduler then keeps the
// processor with the thread that reads until its monitor finds out, and a request that came
// in waits for that, or for a second thread to be woken.
//
// Not to block is a setting of the open file, which other descriptors may share. So a
// terminal stays as it is (it is the shell's), and so does a socket that is also among
// others, as sshd and inetd pass one for input and output: a write to a full socket would be
// cut off.
func Polled(in io.Reader, others ...any) io.Reader { return polled(in, others...) }
