import { createRoot } from 'react-dom/client'
import { DataGrid } from '@mui/x-data-grid'
const st = window.st = {}
const rows = [...Array(300)].map((x, i) => ({ id: i, name: 'Row ' + i, n: (i * 37) % 300 }))
createRoot(document.querySelector('#root')).render(<div style={{ height: 400, width: 600 }}><DataGrid rows={rows} checkboxSelection columns={[{ field: 'name', headerName: 'Name', editable: true, width: 200 }, { field: 'n', headerName: 'Number', width: 150 }]}
  onRowSelectionModelChange={m => { st.sel = [...(m.ids || m)].join() }} onSortModelChange={m => { st.sort = m.map(x => x.field + x.sort).join() }} onPaginationModelChange={m => { st.page = m.page }}
  processRowUpdate={r => { st.row = r.name; return r }} /></div>)
window.ready = true
