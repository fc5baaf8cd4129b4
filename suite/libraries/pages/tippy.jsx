import tippy from 'tippy.js'
tippy('#b', { trigger: 'click', interactive: true, allowHTML: true, content: '<button onclick="document.title=\'cut\'">Cut</button>' })
tippy('#h', { content: 'Explains it' })
window.ready = true
