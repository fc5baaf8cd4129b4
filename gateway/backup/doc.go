// Package backup makes one sealed file of what a gateway keeps, and a data directory of such a
// file. The file is age's: `age --decrypt FILE | tar --list --gzip` shows what is in it.
//
// Promises: a backup is of one moment of the store, while the gateway works; nobody without the
// passphrase or the key reads or changes a byte of it unseen; a file that is damaged, cut short,
// of a newer program or of another kind is refused whole, each with its own code, before a data
// directory is made of it; the node of this machine, which is a device of its own, is not in it.
//
// It must never import a surface, or decide what a restored site may do: gateway does.
package backup
