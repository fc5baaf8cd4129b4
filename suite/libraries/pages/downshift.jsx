import { createRoot } from 'react-dom/client'
import { useState } from 'react'
import { useCombobox, useSelect } from 'downshift'
const all = ['France', 'Germany', 'Italy'], st = window.st = {}
function Combo() {
  const [items, setItems] = useState(all)
  const c = useCombobox({ items, onInputValueChange: ({ inputValue }) => setItems(all.filter(x => x.toLowerCase().includes((inputValue || '').toLowerCase()))), onSelectedItemChange: ({ selectedItem }) => { st.c = selectedItem } })
  return <div><label {...c.getLabelProps()}>Land</label><input {...c.getInputProps()} /><ul {...c.getMenuProps()}>{c.isOpen && items.map((x, index) => <li key={x} {...c.getItemProps({ item: x, index })}>{x}</li>)}</ul></div>
}
function One() {
  const s = useSelect({ items: all, onSelectedItemChange: ({ selectedItem }) => { st.s = selectedItem } })
  return <div><label {...s.getLabelProps()}>Country</label><div {...s.getToggleButtonProps()}>{s.selectedItem || 'choose'}</div><ul {...s.getMenuProps()}>{s.isOpen && all.map((x, index) => <li key={x} {...s.getItemProps({ item: x, index })}>{x}</li>)}</ul></div>
}
createRoot(document.querySelector('#root')).render(<><Combo /><One /></>)
window.ready = true
