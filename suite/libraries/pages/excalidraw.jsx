import { createRoot } from 'react-dom/client'
import { Excalidraw } from '@excalidraw/excalidraw'
createRoot(document.querySelector('#root')).render(<Excalidraw excalidrawAPI={api => { window.api = api; window.shapes = () => api.getSceneElements().map(x => x.type).join(); window.ready = true }} />)
