import { createRoot } from 'react-dom/client'
import { useRef } from 'react'
import { useVirtualizer } from '@tanstack/react-virtual'
function App() {
  const ref = useRef(null)
  const v = useVirtualizer({ count: 10000, getScrollElement: () => ref.current, estimateSize: () => 30 })
  return <div ref={ref} id="l" style={{ height: 300, width: 300, overflow: 'auto' }}><div style={{ height: v.getTotalSize(), position: 'relative' }}>
    {v.getVirtualItems().map(i => <button key={i.key} onClick={() => { window.picked = i.index }} style={{ position: 'absolute', top: 0, transform: `translateY(${i.start}px)`, height: 30 }}>Row {i.index}</button>)}</div></div>
}
createRoot(document.querySelector('#root')).render(<App />)
window.ready = true
