// Package skill keeps the skills of a gateway: folders with a SKILL.md of instructions that a
// model reads (S3-15), in the Agent Skills format. A few are compiled in; the others an owner
// has put into one folder, which is read once.
//
// The story in the order of reading: skill.go (a skill and its files), shelf.go (all of them,
// from where they come), load.go (the tool that loads one).
//
// Promises: a skill is text and grants nothing, whatever it says of allowed tools; nothing
// outside its folder is read, and no link is followed; files, their number and their size are
// bounded; a character that nobody sees is written out; a skill is loaded by a call alone, from
// whichever surface.
//
// It must never import a surface (gateway/front) or the pipeline (gateway/dispatch).
package skill
