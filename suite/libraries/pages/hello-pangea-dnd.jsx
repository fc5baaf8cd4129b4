import { createRoot } from 'react-dom/client'
import { useState } from 'react'
import { DragDropContext, Draggable, Droppable } from '@hello-pangea/dnd'
function App() {
  const [items, setItems] = useState(['Apple', 'Pear', 'Plum'])
  window.order = items.join()
  return <DragDropContext onDragEnd={r => { if (!r.destination) return; setItems(l => { const n = [...l], [x] = n.splice(r.source.index, 1); n.splice(r.destination.index, 0, x); return n }) }}>
    <Droppable droppableId="l">{p => <div ref={p.innerRef} {...p.droppableProps} style={{ width: 220 }}>{items.map((x, i) => <Draggable key={x} draggableId={x} index={i}>{p => <div ref={p.innerRef} id={x} {...p.draggableProps} {...p.dragHandleProps} style={{ height: 40, background: '#eee', ...p.draggableProps.style }}>{x}</div>}</Draggable>)}{p.placeholder}</div>}</Droppable></DragDropContext>
}
createRoot(document.querySelector('#root')).render(<App />)
window.ready = true
