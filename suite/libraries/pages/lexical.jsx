import { createRoot } from 'react-dom/client'
import { LexicalComposer } from '@lexical/react/LexicalComposer'
import { RichTextPlugin } from '@lexical/react/LexicalRichTextPlugin'
import { ContentEditable } from '@lexical/react/LexicalContentEditable'
import { HistoryPlugin } from '@lexical/react/LexicalHistoryPlugin'
import { OnChangePlugin } from '@lexical/react/LexicalOnChangePlugin'
import { LexicalErrorBoundary } from '@lexical/react/LexicalErrorBoundary'
import { useLexicalComposerContext } from '@lexical/react/LexicalComposerContext'
import { FORMAT_TEXT_COMMAND, $getRoot } from 'lexical'
function Bold() {
  const [editor] = useLexicalComposerContext()
  return <button onMouseDown={e => e.preventDefault()} onClick={() => editor.dispatchCommand(FORMAT_TEXT_COMMAND, 'bold')}>Bold</button>
}
createRoot(document.querySelector('#root')).render(<LexicalComposer initialConfig={{ namespace: 'x', onError: e => { throw e } }}>
  <Bold />
  <RichTextPlugin contentEditable={<ContentEditable aria-label="Letter" style={{ border: '1px solid', minHeight: 80 }} />} placeholder={null} ErrorBoundary={LexicalErrorBoundary} />
  <HistoryPlugin />
  <OnChangePlugin onChange={s => { s.read(() => { window.text = $getRoot().getTextContent() }); window.json = JSON.stringify(s.toJSON()) }} />
</LexicalComposer>)
window.ready = true
