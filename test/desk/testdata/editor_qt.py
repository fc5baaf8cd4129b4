import os, sys

from PyQt5 import QtGui, QtWidgets

app = QtWidgets.QApplication(sys.argv[:1])
window = QtWidgets.QMainWindow()
path = sys.argv[1]
window.setWindowTitle(os.path.basename(path) + " - editor")
window.resize(500, 300)
text = QtWidgets.QPlainTextEdit()
text.setAccessibleName("text")
with open(path, encoding="utf-8") as f:
    text.setPlainText(f.read())
window.setCentralWidget(text)


def save():
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(text.toPlainText())
    os.replace(path + ".new", path)


action = window.menuBar().addMenu("File").addAction("Save")
action.setShortcut(QtGui.QKeySequence("Ctrl+S"))
action.triggered.connect(save)
window.show()
text.setFocus()
app.exec_()
