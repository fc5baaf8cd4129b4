import { createRoot } from 'react-dom/client'
import { ReactFlow, useNodesState, useEdgesState, addEdge, Controls } from '@xyflow/react'
import '@xyflow/react/dist/style.css'
function App() {
  const [nodes, , onNodes] = useNodesState([{ id: 'a', position: { x: 50, y: 20 }, data: { label: 'Alpha' } }, { id: 'b', position: { x: 300, y: 180 }, data: { label: 'Beta' } }])
  const [edges, setEdges, onEdges] = useEdgesState([])
  window.nodes = nodes; window.edges = edges
  return <ReactFlow nodes={nodes} edges={edges} onNodesChange={onNodes} onEdgesChange={onEdges} onConnect={c => setEdges(e => addEdge(c, e))}><Controls /></ReactFlow>
}
createRoot(document.querySelector('#root')).render(<App />)
window.ready = true
