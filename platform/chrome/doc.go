// Package chrome finds an installed Chrome or Chromium, reads its version, and
// says whether this host can give it its sandbox and under which account.
//
// Promises: every decision takes the operating system as a value, so that all of
// them are tested anywhere; a wrapper that cannot work (Ubuntu's snap stub) is
// recognised and explained, never started; it changes nothing on the host.
//
// It must never import anything of this module but the platform root.
package chrome
