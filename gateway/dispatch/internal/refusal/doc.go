// Package refusal bounds the refused calls of each principal. A refusal is packets in a
// durable commit, so a caller that does nothing but be refused would fill the disk and
// hold up everybody else's commits.
//
// Promises: a principal whose calls succeed is never held up; one that is over its rate is
// turned away with CodeOverloaded before anything of its call is looked at, and counted,
// with the names of its tools; memory stays bounded however many principals there are.
//
// It must never import anything of the gateway.
package refusal
