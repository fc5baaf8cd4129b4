import * as app from 'decap-cms-app/dist/decap-cms-app.js'
window.CMS = app.DecapCmsApp ?? app.default ?? app
