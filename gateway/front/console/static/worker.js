// Shows what the gateway sent through the browser's push service, and leads to it. It
// fetches nothing and keeps nothing.
self.addEventListener("push", (e) => {
  let m = {};
  try { m = e.data.json(); } catch { /* a browser has to show something */ }
  e.waitUntil(self.registration.showNotification(m.title ?? "Handrail", {
    body: m.body ?? "Something waits for you.", tag: m.approval ?? "handrail", requireInteraction: Boolean(m.approval),
  }));
});

self.addEventListener("notificationclick", (e) => {
  e.notification.close();
  e.waitUntil((async () => {
    const pages = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
    const open = pages.find((c) => new URL(c.url).pathname === "/console/approvals");
    return open ? open.focus() : self.clients.openWindow("/console/approvals");
  })());
});
