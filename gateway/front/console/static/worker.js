// Shows what the gateway sent through the browser's push service, and leads to it. It
// fetches nothing and keeps nothing.
self.addEventListener("push", (e) => {
  let m = {};
  try { m = e.data.json(); } catch { /* a browser has to show something */ }
  e.waitUntil(self.registration.showNotification(m.title ?? "Handrail", {
    body: m.body ?? "Something waits for you.", tag: m.approval ?? m.drift ?? "handrail", requireInteraction: Boolean(m.approval ?? m.drift),
    data: m.drift ? "/console/drift" : "/console/approvals",
  }));
});

self.addEventListener("notificationclick", (e) => {
  e.notification.close();
  e.waitUntil((async () => {
    const pages = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
    const at = e.notification.data === "/console/drift" ? "/console/drift" : "/console/approvals";
    const open = pages.find((c) => new URL(c.url).pathname === at);
    return open ? open.focus() : self.clients.openWindow(at);
  })());
});
