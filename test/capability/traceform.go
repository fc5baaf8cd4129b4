package capability

import "html/template"

// traceForm is a trace as a page that loads nothing: its policy forbids it to.
var traceForm = template.Must(template.New("trace").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width"><title>{{.ID}}: failed</title>
<style>
:root{--ink:#1d2733;--soft:#5b6673;--line:#d9dee4;--bad:#b3261e;--good:#1a7f4b;--back:#f6f7f9;--face:#fff;color-scheme:light}
*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:72rem;margin:0 auto;padding:2rem 1.5rem 4rem}
h1{font-size:1.5rem;margin:0;overflow-wrap:anywhere}h2{font-size:1.1rem;margin:2.5rem 0 .75rem}h3{font-size:.95rem;margin:0}
.about{color:var(--soft);margin:.25rem 0}.about b{color:var(--ink);font-weight:600}
.error{background:var(--face);border-left:4px solid var(--bad);padding:.9rem 1.1rem;margin:1.25rem 0;white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.5 ui-monospace,monospace}
.card{background:var(--face);border:1px solid var(--line);border-radius:.5rem;padding:.9rem 1.1rem;margin:.6rem 0}
.row{display:flex;gap:.75rem;align-items:baseline;flex-wrap:wrap}.row .time{margin-left:auto;color:var(--soft);white-space:nowrap}
.ok{color:var(--good)}.bad{color:var(--bad)}code,pre,.mono{font:12.5px/1.5 ui-monospace,monospace}
code{overflow-wrap:anywhere;color:var(--soft)}pre{margin:.5rem 0 0;white-space:pre-wrap;overflow-wrap:anywhere}
summary{cursor:pointer;color:var(--soft);margin-top:.5rem}
table{border-collapse:collapse;width:100%;margin-top:.5rem;font-size:13px}td,th{text-align:left;padding:.2rem .75rem .2rem 0;border-top:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
td:first-child{color:var(--soft);width:2rem}td.when{white-space:nowrap;font-variant-numeric:tabular-nums;width:7rem}td.name{width:8rem}
.frames{display:grid;grid-template-columns:1fr 1fr;gap:1rem;margin-top:.75rem}figure{margin:0}figcaption{color:var(--soft);font-size:13px;margin-bottom:.25rem}
img{width:100%;border:1px solid var(--line);border-radius:.25rem;display:block;background:#fff}
img.wide{max-width:44rem}
.none{border:1px dashed var(--line);border-radius:.25rem;color:var(--soft);padding:2rem 1rem;text-align:center}
.diff div{white-space:pre-wrap;overflow-wrap:anywhere;padding:0 .5rem}.diff .add{background:#e2f4ea}.diff .cut{background:#fbe6e4}
.plain{margin:0;padding:0;list-style:none}.plain li{border-top:1px solid var(--line);padding:.2rem 0}
</style></head><body><main>
<p class="about">Capability suite, failed behaviour</p>
<h1>{{.ID}}</h1>
<p class="about"><b>{{.Title}}</b>: {{.Proves}}</p>
<p class="about">{{if .Suite}}{{.Suite}}: {{else}}Chrome {{end}}{{.Chrome}} on node {{.Node}}, {{.Began.UTC.Format "2006-01-02 15:04:05 MST"}}</p>
<div class="error">{{.Error}}</div>
<p class="about">Run again under record, {{.Again}}</p>

<h2>The page when it failed</h2>
<div class="card">{{if .Image}}<img class="wide" src="{{.Image}}" alt="the page when it failed">{{else}}<div class="none">no picture could be taken</div>{{end}}
{{if .Outline}}<details><summary>Outline</summary><pre>{{.Outline}}</pre></details>{{end}}</div>

<h2>Calls</h2>
{{range .Calls}}<div class="card"><div class="row"><h3>{{.N}}. {{.Tool}}</h3><span class="{{if .OK}}ok{{else}}bad{{end}}">{{.End}}</span><span class="time">at {{.At}}, took {{.Took}}</span></div>
<code>{{.Args}}</code>
{{if .Effect}}<p class="about">effect {{.Effect}}{{if .Evidence}}: {{.Evidence}}{{end}}</p>{{end}}
{{if .OK}}<details><summary>Result</summary><pre>{{.Result}}</pre></details>{{end}}
{{if .Hops}}<details{{if not .OK}} open{{end}}><summary>The twelve hops of call {{.ID}} in lane {{.Lane}}; times since it was sent</summary>
<table>{{range .Hops}}<tr><td>{{.N}}</td><td class="name">{{.Name}}</td><td class="when">{{.When}}</td><td>{{.What}}</td></tr>{{end}}</table></details>
{{else if .HopsMissing}}<p class="about">hops: {{.HopsMissing}}</p>{{end}}</div>
{{else}}<p class="about">none was made</p>{{end}}

<h2>Step by step, when it ran again</h2>
{{range .Steps}}<div class="card"><div class="row"><h3>{{.Tool}}</h3><span class="{{if .OK}}ok{{else}}bad{{end}}">{{.End}}</span></div><code>{{.Args}}</code>
<div class="frames"><figure><figcaption>before</figcaption>{{if .Before}}<img src="{{.Before}}" alt="before">{{else}}<div class="none">no page yet</div>{{end}}</figure>
<figure><figcaption>after</figcaption>{{if .After}}<img src="{{.After}}" alt="after">{{else}}<div class="none">no picture could be taken</div>{{end}}</figure></div>
{{if .Difference}}<details open><summary>Difference of the outlines</summary><div class="diff mono">{{range .Difference}}<div class="{{if eq .Sign "+"}}add{{else if eq .Sign "-"}}cut{{end}}">{{.Sign}} {{.Text}}</div>{{end}}</div></details>{{else}}<p class="about">the outline is as it was</p>{{end}}</div>
{{else}}<p class="about">no step was recorded</p>{{end}}

<h2>Console</h2>
<div class="card">{{if .Console}}<ul class="plain mono">{{range .Console}}<li>{{.}}</li>{{end}}</ul>{{else}}<span class="about">nothing is known</span>{{end}}</div>
<h2>Network</h2>
<div class="card">{{if .Network}}<ul class="plain mono">{{range .Network}}<li>{{.}}</li>{{end}}</ul>{{else}}<span class="about">nothing is known</span>{{end}}
{{if .Served}}<details><summary>What the suite's server was asked for</summary><pre>{{.Served}}</pre></details>{{end}}</div>
</main></body></html>
`))
