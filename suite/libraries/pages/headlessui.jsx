import { createRoot } from 'react-dom/client'
import { useState } from 'react'
import { Combobox, ComboboxInput, ComboboxOption, ComboboxOptions, Listbox, ListboxButton, ListboxOption, ListboxOptions, Menu, MenuButton, MenuItem, MenuItems, Switch, Field, Label } from '@headlessui/react'
const st = window.st = {}
const all = ['France', 'Germany', 'Italy']
function App() {
  const [l, setL] = useState('France'), [c, setC] = useState(null), [q, setQ] = useState(''), [w, setW] = useState(false)
  return <>
    <Field><Label>Country</Label><Listbox value={l} onChange={v => { setL(v); st.l = v }}><ListboxButton>{l}</ListboxButton><ListboxOptions>{all.map(x => <ListboxOption key={x} value={x}>{x}</ListboxOption>)}</ListboxOptions></Listbox></Field>
    <Field><Label>Land</Label><Combobox value={c} onChange={v => { setC(v); st.c = v }}><ComboboxInput onChange={e => setQ(e.target.value)} /><ComboboxOptions>{all.filter(x => x.toLowerCase().includes(q.toLowerCase())).map(x => <ComboboxOption key={x} value={x}>{x}</ComboboxOption>)}</ComboboxOptions></Combobox></Field>
    <Menu><MenuButton>Menu</MenuButton><MenuItems><MenuItem><button onClick={() => { st.m = 'cut' }}>Cut</button></MenuItem></MenuItems></Menu>
    <Switch checked={w} aria-label="Wifi" style={{ width: 40, height: 20 }} onChange={v => { setW(v); st.w = v }} />
  </>
}
createRoot(document.querySelector('#root')).render(<App />)
window.ready = true
