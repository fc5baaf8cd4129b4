// ---- ready: what only the page knows of how far it has come (ready.go) ----------------

// drawn answers when what the page shows has been drawn, and what it has to do has had its
// turn: on a busy machine frames come before the answer to a fetch is read.
async function drawn() {
  for (let n = 0; n < 2; n++) await new Promise(done => requestAnimationFrame(done));
  await new Promise(done => {
    const stop = later(done, 100);
    scheduler.postTask(() => { stop(); done(); }, {priority: 'background'}).catch(() => {});
  });
  return {};
}

// streams answers when a document that is still being received has got no new element for
// a while, or is parsed.
async function streams(o) {
  const count = () => document.getElementsByTagName('*').length;
  const step = () => new Promise(done => later(done, 25));
  for (let n = count(), since = performance.now(); document.readyState === 'loading' && performance.now() - since < o.still; ) {
    await step();
    const now = count();
    if (now !== n) { n = now; since = performance.now(); }
  }
  return {};
}

// tasks answers when what the page's present task began has had its turn.
async function tasks() {
  for (let n = 0; n < 2; n++) await reacted();
  return {};
}

// pictures tells which of some addresses an element shows.
function pictures(o) {
  const shown = new Set();
  everyRoot(document, root => { for (const i of root.querySelectorAll('img')) shown.add((i.currentSrc || i.src).split('#')[0]); });
  return {shown: o.urls.filter(u => shown.has(u))};
}
