import gi

gi.require_version("Gtk", "4.0")
gi.require_version("Gdk", "4.0")
from gi.repository import Gdk, GLib, Gtk

import events
from events import write

Gtk.init()
loop = GLib.MainLoop()
window = Gtk.Window(title=events.title)
window.set_default_size(640, 560)
box = Gtk.Box(orientation=Gtk.Orientation.VERTICAL, spacing=4)
window.set_child(box)
widgets = {}


def add(name, widget, parent=box):
    widgets[name] = widget
    widget.set_name(name)
    widget.update_property([Gtk.AccessibleProperty.LABEL], [name])
    parent.append(widget)
    focus = Gtk.EventControllerFocus()
    focus.connect("enter", lambda c: write("focus", widget=name, on=True))
    focus.connect("leave", lambda c: write("focus", widget=name, on=False))
    widget.add_controller(focus)
    return widget


entry = add("entry", Gtk.Entry())
password = add("password", Gtk.PasswordEntry())
for w in (entry, password):
    w.connect("changed", lambda w: write("text", widget=w.get_name(), text=w.get_text()))
text_scroll = Gtk.ScrolledWindow(min_content_height=80, vexpand=True)
text = Gtk.TextView()
text.set_name("text")
text.update_property([Gtk.AccessibleProperty.LABEL], ["text"])
widgets["text"] = text
buffer = text.get_buffer()
buffer.connect("changed", lambda b: write("text", widget="text", text=b.get_text(*b.get_bounds(), True)))
text_scroll.set_child(text)
box.append(text_scroll)

row = Gtk.Box(spacing=8)
box.append(row)
button = add("button", Gtk.Button(label="button"), row)
button.connect("clicked", lambda b: write("clicked", widget="button"))
check = add("check", Gtk.CheckButton(label="check"), row)
check.connect("toggled", lambda b: write("toggled", widget="check", on=b.get_active()))
spin = add("spin", Gtk.SpinButton.new_with_range(0, 100, 1), row)
spin.connect("value-changed", lambda s: write("value", widget="spin", number=s.get_value()))
colours = ["red", "green", "blue"]
combo = add("combo", Gtk.DropDown.new_from_strings(colours), row)
combo.connect("notify::selected", lambda c, p: write("selected", widget="combo", text=colours[c.get_selected()]))
label = add("label", Gtk.Label(label="label"), row)
slider = add("slider", Gtk.Scale.new_with_range(Gtk.Orientation.HORIZONTAL, 0, 100, 1))
slider.connect("value-changed", lambda s: write("value", widget="slider", number=s.get_value()))

strings = Gtk.StringList()
selection = Gtk.SingleSelection(model=strings, autoselect=False, can_unselect=True)
factory = Gtk.SignalListItemFactory()
factory.connect("setup", lambda f, item: item.set_child(Gtk.Label(xalign=0)))
factory.connect("bind", lambda f, item: item.get_child().set_label(item.get_item().get_string()))
view = Gtk.ListView(model=selection, factory=factory)


def chosen(s, p):
    if s.get_selected_item():
        write("selected", widget="list", text=s.get_selected_item().get_string())


selection.connect("notify::selected", chosen)
list_scroll = Gtk.ScrolledWindow(min_content_height=120, vexpand=True)
list_scroll.set_child(view)
view.set_name("list")
view.update_property([Gtk.AccessibleProperty.LABEL], ["list"])
widgets["list"] = view
box.append(list_scroll)


def fill(n):
    strings.splice(0, strings.get_n_items(), ["row %d" % i for i in range(int(n))])


fill(events.rows)

capture = Gtk.PropagationPhase.CAPTURE


def key(down):
    def on(c, keyval, code, state):
        write("key", down=down, keyval=Gdk.keyval_name(keyval) or "", code=code, state=int(state) & 0x1FFF,
              text=chr(Gdk.keyval_to_unicode(keyval)) if Gdk.keyval_to_unicode(keyval) else "")
        return False

    return on


keys = Gtk.EventControllerKey(propagation_phase=capture)
keys.connect("key-pressed", key(True))
keys.connect("key-released", key(False))
window.add_controller(keys)


# Gestures, and not the events themselves: PyGObject 3.42 cannot pass those.
def state(c):
    return int(c.get_current_event_state()) & 0x1FFF


clicks = Gtk.GestureClick(button=0, propagation_phase=capture)
clicks.connect("pressed", lambda g, n, x, y: write("button", down=True, button=g.get_current_button(), x=x, y=y, state=state(g)))
clicks.connect("released", lambda g, n, x, y: write("button", down=False, button=g.get_current_button(), x=x, y=y, state=state(g)))
clicks.connect("unpaired-release", lambda g, x, y, b, s: write("button", down=False, button=b, x=x, y=y))
window.add_controller(clicks)
motion = Gtk.EventControllerMotion(propagation_phase=capture)
motion.connect("motion", lambda c, x, y: write("motion", x=x, y=y, state=state(c)))
window.add_controller(motion)
wheel = Gtk.EventControllerScroll(flags=Gtk.EventControllerScrollFlags.BOTH_AXES, propagation_phase=capture)
wheel.connect("scroll", lambda c, dx, dy: write("scroll", dx=dx, dy=dy, state=state(c)) and False)
window.add_controller(wheel)


def boxes():
    found = {}
    for name, w in widgets.items():
        if not w.get_mapped():
            continue
        ok, r = w.compute_bounds(window)
        if ok:
            found[name] = dict(X=int(r.get_x()), Y=int(r.get_y()), Width=int(r.get_width()), Height=int(r.get_height()))
    return found


def handle(o):
    do, w = o["do"], widgets.get(o.get("widget", ""))
    if do == "boxes":
        return dict(boxes=boxes())
    if do == "title":
        window.set_title(o["text"])
    elif do == "text":
        (buffer if w is text else w).set_text(*((o["text"], -1) if w is text else (o["text"],)))
    elif do == "hide":
        w.set_visible(False)
    elif do == "show":
        w.set_visible(True)
    elif do == "remove":
        w.get_parent().remove(w) if isinstance(w.get_parent(), Gtk.Box) else w.unparent()
        widgets.pop(o["widget"])
    elif do in ("disable", "enable"):
        w.set_sensitive(do == "enable")
    elif do == "focus":
        w.grab_focus()
    elif do == "check":
        w.set_active(o["on"])
    elif do == "choose":
        combo.set_selected(int(o["number"]))
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
            return dict(text=colours[combo.get_selected()])
        if w is view:
            item = selection.get_selected_item()
            return dict(text=item.get_string() if item else "")
        if w is button or w is label:
            return dict(text=w.get_label())
        return dict(text=w.get_text())


window.connect("close-request", lambda *a: (write("close"), loop.quit()))
window.present()
entry.grab_focus()
events.orders(GLib.idle_add, lambda o: handle(o), loop.quit)


def ready():
    if not all(b["Width"] for b in boxes().values()) or not boxes():
        return True
    write("ready", boxes=boxes())
    return False


GLib.timeout_add(20, ready)
loop.run()
