// ---- ready: what only the page knows of how far it has come (ready.go) ----------------

// drawn answers when what the page shows has been drawn, and what it has to do has had its
// turn: on a busy machine frames come before the answer to a fetch is read. That turn is waited
// for so long.
async function drawn({turn = 100}) {
  for (let n = 0; n < 2; n++) await new Promise(done => requestAnimationFrame(done));
  await new Promise(done => {
    const stop = later(done, turn);
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

// tasks answers when what the page's present task began has had its turn, with the timers that
// were due at once if those are meant, too.
async function tasks(o) {
  if (o.timers) await new Promise(done => later(done, 2));
  for (let n = 0; n < 2; n++) await reacted();
  return {};
}

// pictures tells which of some addresses an element shows.
function pictures(o) {
  const shown = new Set();
  everyRoot(document, root => { for (const i of root.querySelectorAll('img')) shown.add((i.currentSrc || i.src).split('#')[0]); });
  return {shown: o.urls.filter(u => shown.has(u))};
}
