// Package clientfile edits the settings files of other people's programs: it puts
// one entry into a JSON, commented JSON or TOML file, reads it back, or takes it
// out again.
//
// Promises: no byte of the file that is not of the entry is changed, comments,
// order, line ends and a byte order mark included, except for the comma or the
// blank line that the entry needs; a file that does not parse is refused with the
// place of the mistake and never written; a file is replaced whole or not at all,
// after a copy of it was kept; what it cannot edit safely it refuses.
//
// It must never import another package of this module: it knows files, not
// gateways or tokens.
package clientfile
