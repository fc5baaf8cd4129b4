// The one-time code of the link stands behind the #: out of the address at once, so
// that neither history nor a bookmark keeps it, and into the form.
function enter() {
  const code = location.hash.slice(1);
  if (!code) return;
  history.replaceState(null, "", location.pathname);
  const form = document.getElementById("login");
  form.elements.code.value = code;
  form.requestSubmit();
}
enter();
// A link that is put into this very tab changes the address and loads nothing.
addEventListener("hashchange", enter);
