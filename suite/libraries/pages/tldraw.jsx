import { createRoot } from 'react-dom/client'
import { Tldraw } from 'tldraw'
import 'tldraw/tldraw.css'
createRoot(document.querySelector('#root')).render(<Tldraw onMount={e => { window.ed = e; window.shapes = () => e.getCurrentPageShapes().map(x => x.type).join(); window.ready = true }} />)
