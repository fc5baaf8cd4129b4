// Notices of this browser: asks the person, then the browser, and sends the gateway where
// its push service is to be reached. Nothing is asked before the person pressed.
import { worker } from "./live.js";

const bytes = (s) => Uint8Array.from(atob(s.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
const living = (form) => form.isConnected ? form : document.querySelector("form[data-push]") ?? form;

function problem(form, text) {
  const at = living(form).querySelector("[data-problem]");
  at.textContent = text;
  at.classList.toggle("none", !text);
}

async function subscribe(key) {
  if (!("serviceWorker" in navigator) || !("PushManager" in window) || !("Notification" in window)) {
    throw new Error("This browser shows no notices here. They need HTTPS with a certificate that the browser trusts, or the address localhost; on an iPhone, add the page to the home screen first.");
  }
  if (await Notification.requestPermission() !== "granted") throw new Error("This browser may not show notices of this page. Allow it beside the address, and try again.");
  await navigator.serviceWorker.register(worker());
  const here = await navigator.serviceWorker.ready;
  const want = { userVisibleOnly: true, applicationServerKey: bytes(key) };
  try {
    return await here.pushManager.subscribe(want);
  } catch (err) {
    if (err.name !== "InvalidStateError") throw err; // it is subscribed with a key that the gateway had before
    await (await here.pushManager.getSubscription())?.unsubscribe();
    return here.pushManager.subscribe(want);
  }
}

// Before the form's own sending, which comes again once there is a subscription.
document.addEventListener("submit", async (e) => {
  const form = e.target;
  if (form.dataset.push === undefined || form.dataset.subscribed !== undefined) { delete form.dataset.subscribed; return; }
  e.preventDefault();
  e.stopImmediatePropagation();
  if (form.dataset.asking !== undefined) return;
  form.dataset.asking = "";
  problem(form, "");
  try {
    const got = (await subscribe(form.dataset.push)).toJSON();
    const now = living(form);
    now.elements.endpoint.value = got.endpoint;
    now.elements.p256dh.value = got.keys.p256dh;
    now.elements.auth.value = got.keys.auth;
    now.dataset.subscribed = "";
    now.requestSubmit();
  } catch (err) {
    const said = { NotAllowedError: "This browser may not show notices of this page. Allow it beside the address, and try again.", AbortError: "The browser reached no push service of its own." };
    problem(form, said[err.name] ?? err.message);
  } finally {
    delete form.dataset.asking;
  }
}, true);
