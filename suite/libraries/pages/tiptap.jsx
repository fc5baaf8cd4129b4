import { Editor } from '@tiptap/core'
import StarterKit from '@tiptap/starter-kit'
window.t = new Editor({ element: document.querySelector('#e'), extensions: [StarterKit], content: '<p>Old text</p>' })
document.querySelector('#b').onclick = () => window.t.chain().focus().toggleBold().run()
window.ready = true
