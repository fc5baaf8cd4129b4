// Package owner is what the person whose device this is has to say: the owner's
// file (owner.json), the rules it becomes, and the questions that a person answers
// on the device itself.
//
// Promises: the file becomes Cedar rules that only forbid or ask, so whatever it
// holds, it never permits what the gateway's policy or the owner's Cedar rules do
// not; it is evaluated by the same library as the gateway's policy; a file with a
// mistake never takes the place of a good one; a question nobody answers is a no;
// an answer is for the calls it names and no other, and no network, page or tool
// can give one: it comes as a file in a folder that only the owner's account
// can open.
//
// It must never import the gateway, the link, the guard or a handler.
package owner
