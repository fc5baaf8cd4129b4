// Shows what the gateway sent through the browser's push service, and leads to it. It
// fetches nothing and keeps nothing, and answers nothing: Allow and Deny lead to the question,
// where the person is known and sees what it is about.
const place = (m) => m.drift ? "/console/drift" : /^[A-Za-z0-9_-]{1,128}$/.test(m.approval ?? "") ? "/console/approvals/" + m.approval : "/console/approvals";

self.addEventListener("push", (e) => {
  let m = {};
  try { m = e.data.json(); } catch { /* a browser has to show something */ }
  const at = place(m);
  e.waitUntil(self.registration.showNotification(m.title ?? "Handrail", {
    body: m.body ?? "Something waits for you.", tag: m.approval ?? m.drift ?? "handrail", requireInteraction: Boolean(m.approval ?? m.drift),
    data: at, actions: at.startsWith("/console/approvals/") ? [{ action: "allow", title: "Allow…" }, { action: "deny", title: "Deny…" }] : [],
  }));
});

self.addEventListener("notificationclick", (e) => {
  e.notification.close();
  e.waitUntil((async () => {
    const at = /^\/console\/(drift|approvals(\/[A-Za-z0-9_-]{1,128})?)$/.test(e.notification.data) ? e.notification.data : "/console/approvals";
    const pages = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
    const open = pages.find((c) => new URL(c.url).pathname === at);
    if (open && !e.action) return open.focus();
    return self.clients.openWindow(at + (e.action === "allow" || e.action === "deny" ? "#" + e.action : ""));
  })());
});
