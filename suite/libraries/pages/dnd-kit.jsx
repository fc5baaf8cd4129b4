import { createRoot } from 'react-dom/client'
import { useState } from 'react'
import { DndContext, KeyboardSensor, PointerSensor, closestCenter, useSensor, useSensors } from '@dnd-kit/core'
import { SortableContext, arrayMove, sortableKeyboardCoordinates, useSortable, verticalListSortingStrategy } from '@dnd-kit/sortable'
function Item({ id }) {
  const { attributes, listeners, setNodeRef, transform } = useSortable({ id })
  return <div ref={setNodeRef} id={id} {...attributes} {...listeners} style={{ height: 40, width: 200, margin: 4, background: '#eee', touchAction: 'none', transform: transform ? `translateY(${transform.y}px)` : undefined }}>{id}</div>
}
function App() {
  const [items, setItems] = useState(['Apple', 'Pear', 'Plum'])
  window.order = items.join()
  const sensors = useSensors(useSensor(PointerSensor), useSensor(KeyboardSensor, { coordinateGetter: sortableKeyboardCoordinates }))
  return <DndContext sensors={sensors} collisionDetection={closestCenter} onDragEnd={({ active, over }) => { if (over && active.id !== over.id) setItems(l => arrayMove(l, l.indexOf(active.id), l.indexOf(over.id))) }}>
    <SortableContext items={items} strategy={verticalListSortingStrategy}>{items.map(x => <Item key={x} id={x} />)}</SortableContext></DndContext>
}
createRoot(document.querySelector('#root')).render(<App />)
window.ready = true
