import { EditorState } from 'prosemirror-state'
import { EditorView } from 'prosemirror-view'
import { DOMParser } from 'prosemirror-model'
import { schema } from 'prosemirror-schema-basic'
import { exampleSetup } from 'prosemirror-example-setup'
const doc = DOMParser.fromSchema(schema).parse(document.querySelector('#c'))
window.view = new EditorView(document.querySelector('#e'), { state: EditorState.create({ doc, plugins: exampleSetup({ schema }) }) })
window.ready = true
