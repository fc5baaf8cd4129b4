// Package desk makes tests a desktop of their own: an X server on a free display
// (Xvfb, or Xephyr inside one, whose devices a test can play the person with), a
// window manager, a private D-Bus session with AT-SPI, a private home, and real
// programs on it. Beside that it has oracles: programs nobody here wrote that read
// what our code did (xprop, xdotool, xclip) and fixture programs in GTK 3, GTK 4
// and Qt that write every event they get to a file.
//
// The story in the order of reading: desk.go (starting), process.go (programs),
// window.go and oracle.go (reading back), fixture.go (the fixture programs).
//
// Promises: desks do not meet, so tests run side by side; nothing waits a fixed
// time; whatever a desk started ends with it, also when the test's process is
// killed; a program that is missing fails the test and names its package (and
// skips it under -short).
//
// Tests of any room and test/bench may import it. It must never import any
// package of this module: an oracle that shares our code proves nothing.
package desk
