import sys

from PyQt5 import QtCore, QtGui, QtWidgets

import events
from events import write

app = QtWidgets.QApplication(sys.argv[:1])
window = QtWidgets.QMainWindow()
window.setWindowTitle(events.title)
window.resize(640, 560)
centre = QtWidgets.QWidget()
window.setCentralWidget(centre)
column = QtWidgets.QVBoxLayout(centre)
widgets = {}


def add(name, widget, layout=column):
    widgets[name] = widget
    widget.setObjectName(name)
    widget.setAccessibleName(name)
    layout.addWidget(widget)
    return widget


menu = window.menuBar().addMenu("File")
for text_ in ("Open", "Quit"):
    menu.addAction(text_).triggered.connect(lambda on, t=text_: write("menu", text=t))
window.menuBar().setNativeMenuBar(False)

entry = add("entry", QtWidgets.QLineEdit())
password = add("password", QtWidgets.QLineEdit())
password.setEchoMode(QtWidgets.QLineEdit.Password)
for w in (entry, password):
    w.textChanged.connect(lambda t, w=w: write("text", widget=w.objectName(), text=t))
text = add("text", QtWidgets.QPlainTextEdit())
text.textChanged.connect(lambda: write("text", widget="text", text=text.toPlainText()))
row = QtWidgets.QHBoxLayout()
column.addLayout(row)
button = add("button", QtWidgets.QPushButton("button"), row)
button.clicked.connect(lambda: write("clicked", widget="button"))
check = add("check", QtWidgets.QCheckBox("check"), row)
check.toggled.connect(lambda on: write("toggled", widget="check", on=on))
spin = add("spin", QtWidgets.QSpinBox(), row)
spin.setRange(0, 100)
spin.valueChanged.connect(lambda n: write("value", widget="spin", number=n))
combo = add("combo", QtWidgets.QComboBox(), row)
combo.addItems(["red", "green", "blue"])
combo.currentTextChanged.connect(lambda t: write("selected", widget="combo", text=t))
label = add("label", QtWidgets.QLabel("label"), row)
slider = add("slider", QtWidgets.QSlider(QtCore.Qt.Horizontal))
slider.setRange(0, 100)
slider.valueChanged.connect(lambda n: write("value", widget="slider", number=n))
rows = add("list", QtWidgets.QListWidget())
rows.currentTextChanged.connect(lambda t: t and write("selected", widget="list", text=t))


def fill(n):
    rows.clear()
    rows.addItems(["row %d" % i for i in range(int(n))])


fill(events.rows)

names = {}
for n in dir(QtCore.Qt):
    if n.startswith("Key_"):
        names[int(getattr(QtCore.Qt, n))] = n[4:]


class Every(QtCore.QObject):
    """Sees each event of the window itself, before any widget does."""

    def eventFilter(self, to, e):
        kind = e.type()
        if isinstance(to, QtGui.QWindow):
            mods = int(e.modifiers()) >> 24 if hasattr(e, "modifiers") else 0
            if kind in (QtCore.QEvent.KeyPress, QtCore.QEvent.KeyRelease):
                write("key", down=kind == QtCore.QEvent.KeyPress, keyval=names.get(e.key(), ""), code=e.nativeScanCode(), text=e.text(), state=e.nativeModifiers())
            elif kind in (QtCore.QEvent.MouseButtonPress, QtCore.QEvent.MouseButtonRelease, QtCore.QEvent.MouseButtonDblClick):
                number = {1: 1, 2: 3, 4: 2, 8: 8, 16: 9}.get(int(e.button()), 0)
                write("button", down=kind != QtCore.QEvent.MouseButtonRelease, button=number, x=e.globalX(), y=e.globalY(), state=mods)
            elif kind == QtCore.QEvent.MouseMove:
                write("motion", x=e.globalX(), y=e.globalY())
            elif kind == QtCore.QEvent.Wheel:
                d = e.angleDelta()
                write("scroll", dx=-d.x() / 120, dy=-d.y() / 120)
        elif to in widgets.values() and kind in (QtCore.QEvent.FocusIn, QtCore.QEvent.FocusOut):
            write("focus", widget=to.objectName(), on=kind == QtCore.QEvent.FocusIn)
        return False


every = Every()
app.installEventFilter(every)


def boxes():
    found = {}
    for name, w in widgets.items():
        if w.isVisible():
            p = w.mapToGlobal(QtCore.QPoint(0, 0))
            found[name] = dict(X=p.x(), Y=p.y(), Width=w.width(), Height=w.height())
    return found


def handle(o):
    do, w = o["do"], widgets.get(o.get("widget", ""))
    if do == "boxes":
        return dict(boxes=boxes())
    if do == "title":
        window.setWindowTitle(o["text"])
    elif do == "text":
        w.setPlainText(o["text"]) if w is text else w.setText(o["text"])
    elif do == "hide":
        w.hide()
    elif do == "show":
        w.show()
    elif do == "remove":
        w.setParent(None)
        w.deleteLater()
        widgets.pop(o["widget"])
    elif do in ("disable", "enable"):
        w.setEnabled(do == "enable")
    elif do == "focus":
        w.setFocus()
    elif do == "check":
        w.setChecked(o["on"])
    elif do == "choose":
        combo.setCurrentIndex(int(o["number"]))
    elif do == "number":
        w.setValue(int(o["number"]))
    elif do == "rows":
        fill(o["number"])
    elif do == "look":
        if w is text:
            return dict(text=text.toPlainText())
        if w is check:
            return dict(on=check.isChecked())
        if w in (spin, slider):
            return dict(number=w.value())
        if w is combo:
            return dict(text=combo.currentText())
        if w is rows:
            return dict(text=rows.currentItem().text() if rows.currentItem() else "")
        return dict(text=w.text())


class Bridge(QtCore.QObject):
    run = QtCore.pyqtSignal(object)


bridge = Bridge()
bridge.run.connect(lambda f: f())
closing = window.closeEvent
window.closeEvent = lambda e: (write("close"), closing(e))
window.show()
entry.setFocus()
events.orders(bridge.run.emit, handle, app.quit)


def ready():
    if window.windowHandle() and window.windowHandle().isExposed():
        write("ready", boxes=boxes())
    else:
        QtCore.QTimer.singleShot(20, ready)


QtCore.QTimer.singleShot(20, ready)
app.exec_()
