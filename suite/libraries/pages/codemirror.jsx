import { EditorView, basicSetup } from 'codemirror'
window.ed = new EditorView({ doc: 'let a = 1\n', extensions: [basicSetup], parent: document.querySelector('#e') })
window.ready = true
