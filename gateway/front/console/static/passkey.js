// Passkeys: a form that needs one asks the gateway what to ask, asks the browser, and
// is sent with what the authenticator answered.
const bytes = (s) => Uint8Array.from(atob(s.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
const words = (b) => btoa(String.fromCharCode(...new Uint8Array(b))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const known = (list) => (list ?? []).map((k) => ({ ...k, id: bytes(k.id) }));

async function make(o) {
  const made = await navigator.credentials.create({ publicKey: {
    ...o, challenge: bytes(o.challenge), user: { ...o.user, id: bytes(o.user.id) }, excludeCredentials: known(o.excludeCredentials),
  } });
  const r = made.response;
  return { id: made.id, rawId: words(made.rawId), type: made.type, response: { clientDataJSON: words(r.clientDataJSON), attestationObject: words(r.attestationObject) } };
}

async function ask(o) {
  const got = await navigator.credentials.get({ publicKey: { ...o, challenge: bytes(o.challenge), allowCredentials: known(o.allowCredentials) } });
  const r = got.response;
  return { id: got.id, rawId: words(got.rawId), type: got.type, response: {
    clientDataJSON: words(r.clientDataJSON), authenticatorData: words(r.authenticatorData), signature: words(r.signature), userHandle: r.userHandle ? words(r.userHandle) : undefined,
  } };
}

// The page may have been brought up to date while the person was asked.
const living = (form) => form.isConnected ? form : document.querySelector(`form[data-passkey="${CSS.escape(form.dataset.passkey)}"]`) ?? form;

function problem(form, text) {
  const at = living(form).querySelector("[data-problem]");
  at.textContent = text;
  at.classList.toggle("none", !text);
}

// Before the form's own sending, which comes again once there is an answer.
document.addEventListener("submit", async (e) => {
  const form = /** @type {any} */ (e.target);
  if (form.dataset.passkey === undefined || form.dataset.answered !== undefined) { delete form.dataset.answered; return; }
  e.preventDefault();
  e.stopImmediatePropagation();
  if (form.dataset.asking !== undefined) return;
  form.dataset.asking = "";
  problem(form, "");
  try {
    if (!window.PublicKeyCredential) throw new Error("This browser offers no passkeys here. They need HTTPS, or the address localhost.");
    const body = new URLSearchParams(/** @type {any} */ (new FormData(form, e.submitter)));
    body.delete("credential");
    const answer = await fetch(form.dataset.passkey, { method: "POST", body, headers: { Accept: "application/json" } });
    const told = await answer.json();
    if (!answer.ok) throw new Error([told.error.message, told.error.hint].filter(Boolean).join(" "));
    const got = JSON.stringify(await (form.dataset.make === undefined ? ask(told) : make(told)));
    const now = living(form);
    now.elements.credential.value = got;
    now.dataset.answered = "";
    now.requestSubmit(now === form ? e.submitter : undefined);
  } catch (err) {
    const said = { NotAllowedError: "Nothing was confirmed: it was cancelled, took too long, or no passkey fits.", InvalidStateError: "This device has a passkey of yours here already.", SecurityError: "The browser offers no passkeys at this address." };
    problem(form, said[err.name] ?? err.message);
  } finally {
    delete form.dataset.asking;
  }
}, true);
