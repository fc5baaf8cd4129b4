import { createRoot } from 'react-dom/client'
import Select from 'react-select'
import Creatable from 'react-select/creatable'
const all = ['Red', 'Green', 'Blue'].map(x => ({ value: x.toLowerCase(), label: x }))
window.st = {}
createRoot(document.querySelector('#root')).render(<>
  <label htmlFor="one">Colour</label><Select inputId="one" options={all} onChange={v => { window.st.one = v.value }} />
  <label htmlFor="many">Colours</label><Select inputId="many" isMulti options={all} onChange={v => { window.st.many = v.map(x => x.value).join() }} />
  <label htmlFor="own">Tags</label><Creatable inputId="own" isMulti options={all} onChange={v => { window.st.own = v.map(x => x.value).join() }} />
</>)
window.ready = true
