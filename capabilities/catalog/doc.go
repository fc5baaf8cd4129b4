// Package catalog is the one description of every tool: what a model reads, what
// a node advertises, what policy and the ledger know about it. The data lies in
// tool/DOMAIN/tools.json, or in plumbing/DOMAIN for what no model calls (S3-28); the schemas of a
// domain that is not compiled in come with its ToolManifest. Code elsewhere asks a descriptor and
// never branches on a tool's name. The risk and isolation of a tool are in no file of data: they
// follow from its keys, by derive.go of capabilities/policy.
//
// Promises: the embedded catalog loads or the build's tests fail; a model-facing
// tool ID mirrors its capability ID (S0-01); every schema is closed and bounded;
// descriptors are immutable once loaded and safe for concurrent use; arguments
// that pass SplitArgs are canonical, valid, and free of routing fields.
//
// It must never import anything of this module but the capabilities root and
// capabilities/canonical, and never do I/O beyond the file systems it is given.
package catalog
