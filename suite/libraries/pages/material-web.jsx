import '@material/web/all.js'
const by = id => document.getElementById(id)
by('o').onclick = () => by('d').show()
by('y').onclick = () => { document.title = 'yes'; by('d').close() }
window.ready = true
