"""A GTK 3 program with what the other fixtures lack: an expander, a tree, a context menu, things to drag, a
long pane, and a button whose action answers only when the dialog that it opens is closed."""
import gi

gi.require_version("Gtk", "3.0")
gi.require_version("Gdk", "3.0")
from gi.repository import Gdk, GLib, Gtk

import events
from events import write

window = Gtk.Window(title=events.title)
window.set_default_size(520, 640)
window.set_resizable(True)
box = Gtk.Box(orientation=Gtk.Orientation.VERTICAL, spacing=6)
window.add(box)
widgets = {}


def add(name, widget, expand=False):
    widgets[name] = widget
    widget.get_accessible().set_name(name)
    box.pack_start(widget, expand, expand, 0)
    return widget


expander = add("expander", Gtk.Expander(label="expander"))
expander.add(Gtk.Label(label="inside"))
expander.connect("notify::expanded", lambda e, p: write("toggled", widget="expander", on=e.get_expanded()))

branches = Gtk.TreeStore(str)
for i in range(3):
    top = branches.append(None, ["branch %d" % i])
    branches.append(top, ["leaf %d" % i])
tree = add("tree", Gtk.TreeView(model=branches, headers_visible=False))
tree.append_column(Gtk.TreeViewColumn("branch", Gtk.CellRendererText(), text=0))
tree.connect("row-expanded", lambda t, i, path: write("toggled", widget=branches[i][0], on=True))
tree.connect("row-collapsed", lambda t, i, path: write("toggled", widget=branches[i][0], on=False))

context = Gtk.Menu()
cut = Gtk.MenuItem(label="Cut it")
cut.connect("activate", lambda i: write("menu", text="Cut it"))
context.append(cut)
context.show_all()
area = add("area", Gtk.Button(label="area"))


def pressed(w, e):
    if e.button == 3:
        write("menu", text="shown")
        context.popup_at_pointer(e)
        return True
    return False


area.connect("button-press-event", pressed)
area.connect("popup-menu", lambda w: (write("menu", text="shown"), context.popup_at_widget(w, Gdk.Gravity.SOUTH_WEST, Gdk.Gravity.NORTH_WEST, None), True)[-1])

card = add("card", Gtk.Button(label="card"))
card.drag_source_set(Gdk.ModifierType.BUTTON1_MASK, [], Gdk.DragAction.COPY)
card.drag_source_add_text_targets()
card.connect("drag-data-get", lambda w, c, data, info, at: data.set_text("the card", -1))
tray = add("tray", Gtk.Button(label="tray"))
tray.drag_dest_set(Gtk.DestDefaults.ALL, [], Gdk.DragAction.COPY)
tray.drag_dest_add_text_targets()
tray.connect("drag-data-received", lambda w, c, x, y, data, info, at: write("text", widget="tray", text=data.get_text() or ""))

ask = add("ask", Gtk.Button(label="ask"))


def asked(_):
    write("clicked", widget="ask")
    dialog = Gtk.MessageDialog(transient_for=window, modal=True, message_type=Gtk.MessageType.QUESTION, buttons=Gtk.ButtonsType.YES_NO, text="Really?")
    dialog.set_title("A question")
    answer = dialog.run()
    dialog.destroy()
    write("selected", widget="ask", text="yes" if answer == Gtk.ResponseType.YES else "no")


ask.connect("clicked", asked)

pane = Gtk.ScrolledWindow(min_content_height=140)
lines = Gtk.Box(orientation=Gtk.Orientation.VERTICAL)
for i in range(120):
    line = Gtk.Button(label="line %d" % i)
    line.connect("clicked", lambda b: write("clicked", widget=b.get_label()))
    lines.pack_start(line, False, False, 0)
pane.add(lines)
add("pane", pane, True)
pane.get_vadjustment().connect("value-changed", lambda a: write("value", widget="pane", number=a.get_value()))

window.connect("window-state-event", lambda w, e: write("toggled", widget="window", on=not e.new_window_state & Gdk.WindowState.ICONIFIED))


def boxes():
    found = {}
    for name, w in dict(widgets, window=window).items():
        if not w.get_mapped() or Gtk.Widget.get_window(w) is None:
            continue
        a = w.get_allocation()
        x, y = w.translate_coordinates(window, 0, 0)
        _, ox, oy = Gtk.Widget.get_window(window).get_origin()
        found[name] = dict(X=x + ox, Y=y + oy, Width=a.width, Height=a.height)
    return found


def handle(o):
    if o["do"] == "boxes":
        return dict(boxes=boxes())
    if o["do"] == "look":
        return dict(number=pane.get_vadjustment().get_value(), on=expander.get_expanded())


window.connect("delete-event", lambda *a: (write("close"), Gtk.main_quit()))
window.show_all()
events.orders(GLib.idle_add, lambda o: handle(o), Gtk.main_quit)


def ready():
    if not boxes():
        return True
    write("ready", boxes=boxes())
    return False


GLib.timeout_add(20, ready)
Gtk.main()
