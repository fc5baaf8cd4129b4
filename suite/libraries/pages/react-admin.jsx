import { createRoot } from 'react-dom/client'
import { Admin, Resource, List, Datagrid, TextField, NumberField, EditButton, Edit, Create, SimpleForm, TextInput, NumberInput, SelectInput, BooleanInput, DateInput, required } from 'react-admin'
import fakeRest from 'ra-data-fakerest'
const rows = [...Array(25)].map((x, i) => ({ id: i + 1, title: 'Post ' + (i + 1), views: (i * 7) % 25, kind: 'news', open: false, day: '2026-03-10' }))
const provider = fakeRest({ posts: rows }, false, 50)
const log = window.log = []
const data = new Proxy(provider, { get: (p, name) => async (resource, o) => { const r = await p[name](resource, o); if (/^(update|create|delete)/.test(name)) log.push([name, o.data ?? o.ids ?? o.id]); return r } })
const filters = [<TextInput key="q" source="q" label="Search" alwaysOn />]
const inputs = [<TextInput key="t" source="title" validate={required()} />, <NumberInput key="v" source="views" />,
  <SelectInput key="k" source="kind" choices={[{ id: 'news', name: 'News' }, { id: 'essay', name: 'Essay' }]} />, <BooleanInput key="o" source="open" />, <DateInput key="d" source="day" />]
const Posts = () => <List filters={filters}><Datagrid rowClick={false}><TextField source="title" /><NumberField source="views" /><EditButton /></Datagrid></List>
createRoot(document.querySelector('#root')).render(<Admin dataProvider={data} disableTelemetry>
  <Resource name="posts" list={Posts} edit={() => <Edit mutationMode="pessimistic"><SimpleForm>{inputs}</SimpleForm></Edit>} create={() => <Create redirect="list"><SimpleForm>{inputs}</SimpleForm></Create>} />
</Admin>)
const up = setInterval(() => { if (document.querySelector('tbody tr')) { clearInterval(up); window.ready = true } }, 20)
