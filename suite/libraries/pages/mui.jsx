import { createRoot } from 'react-dom/client'
import { useState } from 'react'
import { Autocomplete, Button, Checkbox, Dialog, FormControl, FormControlLabel, InputLabel, Menu, MenuItem, Select, Slider, Switch, Tab, Tabs, TextField } from '@mui/material'
import { DatePicker, LocalizationProvider } from '@mui/x-date-pickers'
import { AdapterDayjs } from '@mui/x-date-pickers/AdapterDayjs'
import dayjs from 'dayjs'
const st = window.st = {}
function App() {
  const [open, setOpen] = useState(false), [menu, setMenu] = useState(null), [tab, setTab] = useState(0), [v, setV] = useState('')
  return <LocalizationProvider dateAdapter={AdapterDayjs}>
    <FormControl style={{ width: 200 }}><InputLabel id="l">Country</InputLabel><Select labelId="l" label="Country" value={v} onChange={e => { setV(e.target.value); st.s = e.target.value }}>
      <MenuItem value="fr">France</MenuItem><MenuItem value="de">Germany</MenuItem></Select></FormControl>
    <Autocomplete options={['Paris', 'Berlin', 'Rome']} style={{ width: 200 }} onChange={(e, x) => { st.a = x }} renderInput={p => <TextField {...p} label="City" />} />
    <TextField label="Name" onChange={e => { st.t = e.target.value }} />
    <FormControlLabel control={<Checkbox onChange={e => { st.c = e.target.checked }} />} label="Agree" />
    <FormControlLabel control={<Switch onChange={e => { st.w = e.target.checked }} />} label="Wifi" />
    <Slider aria-label="Volume" defaultValue={10} style={{ width: 200 }} onChange={(e, x) => { st.g = x }} />
    <DatePicker label="Date" defaultValue={dayjs('2026-03-10')} onChange={x => { st.d = x && x.isValid() ? x.format('YYYY-MM-DD') : null }} />
    <Button onClick={e => setMenu(e.currentTarget)}>Menu</Button><Menu open={!!menu} anchorEl={menu} onClose={() => setMenu(null)}><MenuItem onClick={() => { st.m = 'cut'; setMenu(null) }}>Cut</MenuItem><MenuItem onClick={() => { st.m = 'copy'; setMenu(null) }}>Copy</MenuItem></Menu>
    <Button onClick={() => setOpen(true)}>Open dialog</Button><Dialog open={open} onClose={() => setOpen(false)}><Button onClick={() => { st.o = 'yes'; setOpen(false) }}>Yes</Button></Dialog>
    <Tabs value={tab} onChange={(e, x) => { setTab(x); st.tab = x }}><Tab label="First" /><Tab label="Second" /></Tabs>
  </LocalizationProvider>
}
createRoot(document.querySelector('#root')).render(<App />)
window.ready = true
