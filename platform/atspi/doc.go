// Package atspi reads and uses the elements that applications publish on a Linux
// desktop, through AT-SPI2 over D-Bus: GTK 3 and 4, Qt, Chromium and whatever
// else speaks it, on X11 and on Wayland.
//
// Promises: nothing is asked one element after another: what an application can
// give at once is read at once, the rest with a bounded number of questions under
// way; each application has its own deadline, and one that is frozen costs its
// own elements only; a mirror of each application is kept true by its events
// while somebody looks, and dropped two minutes after; what an application says
// is never believed to be small, finite or well formed; the text of protected
// fields is never asked for.
//
// Applications publish their elements when org.a11y.Status says that somebody
// listens. The first call that needs elements sets IsEnabled there, and leaves it
// so, as every assistive program does; some desktops remember it. It never sets
// ScreenReaderEnabled, which would start a screen reader on some desktops. Chromium
// and Electron publish what is in their windows only if IsEnabled was set before
// they started and they were started with --force-renderer-accessibility.
// Of some changes they tell nothing: that an element can have the focus now, is
// required or modal, or that a script listens to its clicks. Of fields the mirror asks
// each time; of others it has such a thing when something else of them changes.
//
// It must never import anything of this module but the platform root.
package atspi
