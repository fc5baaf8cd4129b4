// Package ocr reads text in pictures with Tesseract, where it is installed.
//
// Promises: pictures are never written to a disk; the program is started without a shell, one at a
// time, behind the walls of class t0, so that a picture which takes it over reaches nothing; it
// ends with its call and has a bounded answer; a host without it is told what to install.
//
// It must never import anything of this module but the platform root, capabilities and
// platform/sandbox.
package ocr
