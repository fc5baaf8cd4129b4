// Package form is what a program may ask a person while it works for a call: a few fields of
// simple types, as the Model Context Protocol's form elicitation has them. The node reads them
// from what a server wants, the gateway reads them again from what the node sends, and what a
// person fills in is judged here, before it goes back.
//
// Promises: a form is bounded in everything, holds no nested value, and its texts are free of
// characters that nobody sees; Fill returns canonical JSON that holds the form's own fields, each
// within its bounds, or says of each field what is wrong.
//
// It must import nothing but capabilities, capabilities/canonical and the standard library.
package form
