// Package folder says where a path really leads: which folder holds it, behind links and before
// it is made; and it opens files that a program may have put there, without waiting for a pipe.
//
// Promises: it decides nothing and changes nothing; what cannot be found out counts as the
// nearest folder that is there.
//
// It must never import another package of this module: what keeps files apart is small, and read
// by auditors.
package folder
