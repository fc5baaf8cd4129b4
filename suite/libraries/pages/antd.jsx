import { createRoot } from 'react-dom/client'
import { useState } from 'react'
import { Button, Checkbox, Cascader, DatePicker, Dropdown, Input, InputNumber, Modal, Select, Slider, Switch, Tabs } from 'antd'
import dayjs from 'dayjs'
const st = window.st = {}
function App() {
  const [open, setOpen] = useState(false)
  return <>
    <label htmlFor="s">Country</label><Select id="s" style={{ width: 200 }} onChange={v => { st.s = v }} options={[{ value: 'fr', label: 'France' }, { value: 'de', label: 'Germany' }]} />
    <label htmlFor="tags">Tags</label><Select id="tags" mode="tags" style={{ width: 200 }} onChange={v => { st.tags = v.join() }} />
    <label htmlFor="t">Name</label><Input id="t" onChange={e => { st.t = e.target.value }} />
    <Checkbox onChange={e => { st.c = e.target.checked }}>Agree</Checkbox><Switch aria-label="Wifi" onChange={v => { st.w = v }} />
    <InputNumber aria-label="Amount" onChange={v => { st.n = v }} />
    <label htmlFor="d">Date</label><DatePicker id="d" defaultValue={dayjs('2026-03-10')} onChange={(x, text) => { st.d = text }} />
    <Dropdown trigger={['click']} menu={{ items: [{ key: 'cut', label: 'Cut' }, { key: 'copy', label: 'Copy' }], onClick: e => { st.m = e.key } }}><Button>Menu</Button></Dropdown>
    <Button onClick={() => setOpen(true)}>Open dialog</Button><Modal open={open} title="Really?" okText="Yes" onOk={() => { st.o = 'yes'; setOpen(false) }} onCancel={() => setOpen(false)} />
    <Tabs onChange={k => { st.tab = k }} items={[{ key: 'a', label: 'First', children: 'One' }, { key: 'b', label: 'Second', children: 'Two' }]} />
  </>
}
createRoot(document.querySelector('#root')).render(<App />)
window.ready = true
