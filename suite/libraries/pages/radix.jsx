import { createRoot } from 'react-dom/client'
import { Checkbox, Dialog, DropdownMenu, Select, Slider, Switch, Tabs, RadioGroup, Popover } from 'radix-ui'
const st = window.st = {}
createRoot(document.querySelector('#root')).render(<>
  <Select.Root onValueChange={v => { st.s = v }}><Select.Trigger aria-label="Country"><Select.Value placeholder="choose" /></Select.Trigger><Select.Portal><Select.Content position="popper"><Select.Viewport>
    {['France', 'Germany'].map(x => <Select.Item key={x} value={x}><Select.ItemText>{x}</Select.ItemText></Select.Item>)}</Select.Viewport></Select.Content></Select.Portal></Select.Root>
  <Checkbox.Root aria-label="Agree" style={{ width: 20, height: 20 }} onCheckedChange={v => { st.c = v }} /><Switch.Root aria-label="Wifi" style={{ width: 40, height: 20 }} onCheckedChange={v => { st.w = v }} />
  <RadioGroup.Root onValueChange={v => { st.r = v }} aria-label="Size"><RadioGroup.Item value="s" aria-label="Small" style={{ width: 20, height: 20 }} /><RadioGroup.Item value="l" aria-label="Large" style={{ width: 20, height: 20 }} /></RadioGroup.Root>
  <DropdownMenu.Root><DropdownMenu.Trigger>Menu</DropdownMenu.Trigger><DropdownMenu.Portal><DropdownMenu.Content><DropdownMenu.Item onSelect={() => { st.m = 'cut' }}>Cut</DropdownMenu.Item>
    <DropdownMenu.Sub><DropdownMenu.SubTrigger>More</DropdownMenu.SubTrigger><DropdownMenu.Portal><DropdownMenu.SubContent><DropdownMenu.Item onSelect={() => { st.m = 'deep' }}>Deep</DropdownMenu.Item></DropdownMenu.SubContent></DropdownMenu.Portal></DropdownMenu.Sub></DropdownMenu.Content></DropdownMenu.Portal></DropdownMenu.Root>
  <Dialog.Root><Dialog.Trigger>Open dialog</Dialog.Trigger><Dialog.Portal><Dialog.Overlay style={{ position: 'fixed', inset: 0, background: '#0006' }} /><Dialog.Content aria-describedby={undefined} style={{ position: 'fixed', top: 50, left: 50, background: '#fff' }}><Dialog.Title>Really?</Dialog.Title><Dialog.Close onClick={() => { st.o = 'yes' }}>Yes</Dialog.Close></Dialog.Content></Dialog.Portal></Dialog.Root>
  <Tabs.Root defaultValue="a" onValueChange={v => { st.tab = v }}><Tabs.List><Tabs.Trigger value="a">First</Tabs.Trigger><Tabs.Trigger value="b">Second</Tabs.Trigger></Tabs.List></Tabs.Root>
  <Slider.Root defaultValue={[10]} aria-label="x" onValueChange={v => { st.g = v[0] }} style={{ position: 'relative', display: 'flex', width: 200, height: 20 }}><Slider.Track style={{ flexGrow: 1, background: '#ccc' }} /><Slider.Thumb aria-label="Volume" style={{ display: 'block', width: 20, height: 20, background: '#000' }} /></Slider.Root>
</>)
window.ready = true
