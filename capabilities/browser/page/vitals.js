// ---- how fast the page was for the person before it (performance.go) --------------------

// entriesOf gives what the page has kept of one kind; the kinds that are kept for observers are
// given to nobody else.
function entriesOf(type, least) {
  try {
    const observer = new PerformanceObserver(() => {});
    observer.observe({type, buffered: true, ...(least ? {durationThreshold: least} : {})});
    const list = observer.takeRecords();
    observer.disconnect();
    return list;
  } catch {
    return [];
  }
}

// shiftOf is the worst of a page's windows of layout shifts: a window has no gap of a second and
// lasts for five at most. Shifts within half a second of a person's input do not count.
function shiftOf(list) {
  let worst = {value: 0, el: null}, value = 0, from = 0, last = 0, most = 0, el = null;
  for (const e of list) {
    if (e.hadRecentInput) continue;
    if (!value || e.startTime - last >= 1000 || e.startTime - from >= 5000) { value = 0; from = e.startTime; most = 0; el = null; }
    last = e.startTime;
    value += e.value;
    if (e.value > most) { most = e.value; el = e.sources?.[0]?.node ?? null; }
    if (value > worst.value) worst = {value, el};
  }
  return worst;
}

// slowestOf is the interaction that nearly all others were faster than: of each fifty, one is left
// out. Those below 104 ms are kept only where they were the first.
function slowestOf(list, count) {
  const byId = new Map();
  for (const e of list) {
    const known = byId.get(e.interactionId);
    // An event that nobody listened to has no element.
    if (e.interactionId && (!known || e.duration > known.duration || e.duration === known.duration && !known.target)) byId.set(e.interactionId, e);
  }
  const all = [...byId.values()].sort((a, b) => b.duration - a.duration);
  return all[Math.min(all.length - 1, Math.floor(count / 50))];
}

const MAX_SLOW = 5;

// vitals gives the Web Vitals of the document shown, with what each is due to, and a summary of its
// requests and of its long tasks.
function vitals() {
  hid = false;
  const round = ms => Math.round(ms * 10) / 10;
  const said = node => {
    const el = node && (node.nodeType === 1 ? node : node.parentElement);
    return el && el.isConnected ? cut(describe(el), 200) : '';
  };
  const list = [], nav = performance.getEntriesByType('navigation')[0];
  const put = (name, value, what, url) => list.push({name, value, due_to: what || '', url: url || ''});
  if (nav?.responseStart > 0) put('TTFB', round(nav.responseStart - (nav.activationStart || 0)));
  const paint = entriesOf('paint').find(e => e.name === 'first-contentful-paint');
  if (paint) put('FCP', round(paint.startTime));
  const large = entriesOf('largest-contentful-paint').at(-1);
  if (large) put('LCP', round(large.startTime), said(large.element), large.url);
  const shift = shiftOf(entriesOf('layout-shift'));
  put('CLS', Math.round(shift.value * 10000) / 10000, said(shift.el));
  const slow = slowestOf([...entriesOf('event', 16), ...entriesOf('first-input')], performance.interactionCount || 0);
  if (slow) put('INP', slow.duration, `${slow.name} on ${said(slow.target) || 'what is gone from the page'}`);
  const tasks = entriesOf('longtask');
  const requests = [nav, ...performance.getEntriesByType('resource')].filter(Boolean);
  const bytes = requests.reduce((n, e) => n + (e.transferSize || 0), 0);
  return {
    url: location.href, title: document.title, list, hid,
    dom_ready_ms: round(nav?.domContentLoadedEventEnd || 0), load_ms: round(nav?.loadEventEnd || 0),
    long_tasks: {count: tasks.length, longest_ms: round(Math.max(0, ...tasks.map(e => e.duration))), blocking_ms: round(tasks.reduce((n, e) => n + e.duration - 50, 0))},
    resources: {
      count: requests.length, bytes,
      blocking: requests.filter(e => e.renderBlockingStatus === 'blocking').length,
      slowest: requests.sort((a, b) => b.duration - a.duration).slice(0, MAX_SLOW).map(e => ({
        url: e.name, kind: e.initiatorType, ms: round(e.duration), bytes: e.transferSize || 0, blocking: e.renderBlockingStatus === 'blocking',
      })),
    },
  };
}

