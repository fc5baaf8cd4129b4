// Package ocr reads text in pictures with Tesseract, where it is installed.
//
// Promises: pictures are never written to a disk; the program is started without a shell, one at a
// time, ends with its call and has a bounded answer; a host without it is told what to install.
//
// It must never import anything of this module but the platform root.
package ocr
