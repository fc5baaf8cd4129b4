// Buttons that copy the text of an element. Where the browser keeps the clipboard to itself
// the text is selected, for the keys that copy.
document.addEventListener("click", async (e) => {
  const button = e.target.closest("button[data-copy]");
  const from = button && document.getElementById(button.dataset.copy);
  if (!from) return;
  let said = "Copied";
  try {
    await navigator.clipboard.writeText(from.textContent);
  } catch {
    getSelection().selectAllChildren(from);
    said = "Selected: press Ctrl+C";
  }
  const label = button.dataset.label ??= button.textContent;
  button.textContent = said;
  document.getElementById("announce").textContent = `${said}.`;
  setTimeout(() => { if (button.isConnected) button.textContent = label; }, 3000);
});
