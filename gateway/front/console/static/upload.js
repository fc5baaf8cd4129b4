// Takes a file that a person chooses or drops into the form that writes it. The page has the form
// only where the grants of the call show it.
const decoder = new TextDecoder("utf-8", { fatal: true });

async function take(form, file) {
  const problem = form.querySelector("[data-problem]");
  const say = (text) => { problem.textContent = text; problem.classList.toggle("none", !text); };
  say("");
  if (!file) return;
  if (file.size > Number(form.dataset.upload)) return say(`${file.name} is larger than ${form.dataset.upload >> 10} kB. Choose a smaller file.`);
  try {
    form.elements.text.value = decoder.decode(await file.arrayBuffer());
  } catch {
    return say(`${file.name} is no text in UTF-8. Only text files can be written from here.`);
  }
  if (!form.elements.name.value) form.elements.name.value = file.name;
}

for (const form of document.querySelectorAll("form[data-upload]")) {
  const zone = form.querySelector("[data-drop]");
  form.querySelector("input[type=file]").addEventListener("change", async (e) => {
    const input = e.target, file = input.files[0];
    await take(form, file);
    input.value = ""; // the text is what is sent, as the person sees it
  });
  for (const name of ["dragenter", "dragover"]) zone.addEventListener(name, (e) => { e.preventDefault(); zone.classList.add("over"); });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (e) => {
    e.preventDefault();
    zone.classList.remove("over");
    take(form, e.dataTransfer.files[0]);
  });
}
