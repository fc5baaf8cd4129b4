// Package products is a part of the browser's capability suite: whole programs that people
// automate, each a Node server from an npm package, worked as an agent would. Its own API is
// the judge of each task.
//
// The story in the order of reading: product.go (what a product is, and all of them),
// server.go (how one is started and ends). Every other file is about one product; pages holds
// the document of what is no server of its own.
//
// Promises: a server has a folder and a port of its own, and ends with the program that
// started it, even where that is killed; an ID means the same for ever.
//
// It judges from outside. So it must never import any package of this module but suite,
// suite/browser and suite/libraries. The packages are fetched by .ci/libraries, never by it.
package products
