// Package named finds what a message names: quotations, pages and files. They are data. The router
// takes them out before it weighs the words, and a template takes them as arguments, so that both
// read a message in the same way. It also finds where a message asks for one thing after another.
//
// Promises: it is pure; each finding stands in the message as its writer wrote it, but for the
// scheme that an address may lack; no quotation, page or file is parted.
//
// It must never import another room but capabilities.
package named
