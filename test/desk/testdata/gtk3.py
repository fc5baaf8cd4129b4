import gi, sys

gi.require_version("Gtk", "3.0")
gi.require_version("Gdk", "3.0")
from gi.repository import Gdk, GLib, Gtk

import events
from events import write

window = Gtk.Window(title=events.title)
window.set_default_size(640, 560)
box = Gtk.Box(orientation=Gtk.Orientation.VERTICAL, spacing=4)
window.add(box)
widgets = {}


def add(name, widget, parent=box, expand=False):
    widgets[name] = widget
    widget.set_name(name)
    widget.get_accessible().set_name(name)
    if parent is box:
        box.pack_start(widget, expand, expand, 0)
    return widget


bar = Gtk.MenuBar()
file_item = Gtk.MenuItem(label="File")
menu = Gtk.Menu()
for label in ("Open", "Quit"):
    item = Gtk.MenuItem(label=label)
    item.connect("activate", lambda i: write("menu", text=i.get_label()))
    menu.append(item)
file_item.set_submenu(menu)
bar.append(file_item)
box.pack_start(bar, False, False, 0)

entry = add("entry", Gtk.Entry())
password = add("password", Gtk.Entry(visibility=False, input_purpose=Gtk.InputPurpose.PASSWORD))
for w in (entry, password):
    w.connect("changed", lambda w: write("text", widget=w.get_name(), text=w.get_text()))
text = Gtk.TextView()
buffer = text.get_buffer()
buffer.connect("changed", lambda b: write("text", widget="text", text=b.get_text(*b.get_bounds(), True)))
text_scroll = Gtk.ScrolledWindow(min_content_height=80)
text_scroll.add(text)
box.pack_start(text_scroll, True, True, 0)
widgets["text"] = text
text.set_name("text")
text.get_accessible().set_name("text")

row = Gtk.Box(spacing=8)
box.pack_start(row, False, False, 0)
button = add("button", Gtk.Button(label="button"), row)
button.connect("clicked", lambda b: write("clicked", widget="button"))
check = add("check", Gtk.CheckButton(label="check"), row)
check.connect("toggled", lambda b: write("toggled", widget="check", on=b.get_active()))
spin = add("spin", Gtk.SpinButton.new_with_range(0, 100, 1), row)
spin.connect("value-changed", lambda s: write("value", widget="spin", number=s.get_value()))
combo = add("combo", Gtk.ComboBoxText(), row)
for t in ("red", "green", "blue"):
    combo.append_text(t)
combo.connect("changed", lambda c: write("selected", widget="combo", text=c.get_active_text()))
label = add("label", Gtk.Label(label="label"), row)
for w in (button, check, spin, combo, label):
    row.pack_start(w, False, False, 0)
slider = add("slider", Gtk.Scale.new_with_range(Gtk.Orientation.HORIZONTAL, 0, 100, 1))
slider.connect("value-changed", lambda s: write("value", widget="slider", number=s.get_value()))

store = Gtk.ListStore(str)
tree = Gtk.TreeView(model=store, headers_visible=False)
tree.append_column(Gtk.TreeViewColumn("row", Gtk.CellRendererText(), text=0))


def selected(selection):
    model, it = selection.get_selected()
    if it:
        write("selected", widget="list", text=model[it][0])


tree.get_selection().connect("changed", selected)
tree_scroll = Gtk.ScrolledWindow(min_content_height=120)
tree_scroll.add(tree)
box.pack_start(tree_scroll, True, True, 0)
widgets["list"] = tree
tree.set_name("list")
tree.get_accessible().set_name("list")


def fill(n):
    tree.set_model(None)
    store.clear()
    for i in range(int(n)):
        store.append(["row %d" % i])
    tree.set_model(store)


fill(events.rows)

for name, w in widgets.items():
    w.connect("focus-in-event", lambda w, e: write("focus", widget=w.get_name(), on=True))
    w.connect("focus-out-event", lambda w, e: write("focus", widget=w.get_name(), on=False))


def key(w, e):
    write("key", down=e.type == Gdk.EventType.KEY_PRESS, keyval=Gdk.keyval_name(e.keyval) or "", code=e.hardware_keycode, state=int(e.state) & 0x1FFF,
          text=chr(Gdk.keyval_to_unicode(e.keyval)) if Gdk.keyval_to_unicode(e.keyval) else "")


window.connect("key-press-event", key)
window.connect("key-release-event", key)


# Every event passes here, whatever widget it goes to.
def every(e):
    kind = e.type
    if kind in (Gdk.EventType.BUTTON_PRESS, Gdk.EventType.BUTTON_RELEASE):
        b = e.button
        write("button", down=kind == Gdk.EventType.BUTTON_PRESS, button=b.button, x=b.x_root, y=b.y_root, state=int(b.state) & 0x1FFF)
    elif kind == Gdk.EventType.MOTION_NOTIFY:
        write("motion", x=e.motion.x_root, y=e.motion.y_root, state=int(e.motion.state) & 0x1FFF)
    elif kind == Gdk.EventType.SCROLL:
        s = e.scroll
        ok, dx, dy = e.get_scroll_deltas()
        if not ok:
            dx, dy = {Gdk.ScrollDirection.UP: (0, -1), Gdk.ScrollDirection.DOWN: (0, 1), Gdk.ScrollDirection.LEFT: (-1, 0),
                      Gdk.ScrollDirection.RIGHT: (1, 0)}.get(s.direction, (0, 0))
        if dx or dy:
            write("scroll", dx=dx, dy=dy, x=s.x_root, y=s.y_root, state=int(s.state) & 0x1FFF)
    Gtk.main_do_event(e)


Gdk.event_handler_set(every)
window.add_events(Gdk.EventMask.ALL_EVENTS_MASK & ~Gdk.EventMask.POINTER_MOTION_HINT_MASK)


def boxes():
    found = {}
    for name, w in widgets.items():
        if not w.get_mapped() or Gtk.Widget.get_window(w) is None:
            continue
        a = w.get_allocation()
        top = w.get_toplevel()
        x, y = w.translate_coordinates(top, 0, 0)
        _, ox, oy = Gtk.Widget.get_window(top).get_origin()
        found[name] = dict(X=x + ox, Y=y + oy, Width=a.width, Height=a.height)
    return found


def handle(o):
    do, w = o["do"], widgets.get(o.get("widget", ""))
    if do == "boxes":
        return dict(boxes=boxes())
    if do == "title":
        window.set_title(o["text"])
    elif do == "text":
        (buffer if w is text else w).set_text(o["text"])
    elif do == "hide":
        w.hide()
    elif do == "show":
        w.show()
    elif do == "remove":
        w.destroy()
        widgets.pop(o["widget"])
    elif do in ("disable", "enable"):
        w.set_sensitive(do == "enable")
    elif do == "focus":
        w.grab_focus()
    elif do == "check":
        w.set_active(o["on"])
    elif do == "choose":
        combo.set_active(int(o["number"]))
    elif do == "number":
        w.set_value(o["number"])
    elif do == "rows":
        fill(o["number"])
    elif do == "look":
        if w is text:
            return dict(text=buffer.get_text(*buffer.get_bounds(), True))
        if w is check:
            return dict(on=check.get_active())
        if w in (spin, slider):
            return dict(number=w.get_value())
        if w is combo:
            return dict(text=combo.get_active_text() or "")
        if w is tree:
            model, it = tree.get_selection().get_selected()
            return dict(text=model[it][0] if it else "")
        if w is button or w is label:
            return dict(text=w.get_label())
        return dict(text=w.get_text())


window.connect("delete-event", lambda *a: (write("close"), Gtk.main_quit()))
window.show_all()
entry.grab_focus()
events.orders(GLib.idle_add, lambda o: handle(o), Gtk.main_quit)


def ready():
    if not boxes():
        return True
    write("ready", boxes=boxes())
    return False


GLib.timeout_add(20, ready)
Gtk.main()
