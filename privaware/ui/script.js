// A form answers once: its button waits until the next page is there.
for (const form of document.forms) {
  form.addEventListener("submit", event => {
    const button = event.submitter ?? form.querySelector("button");
    setTimeout(() => { button.disabled = true; button.textContent = "working"; });
  });
}
window.addEventListener("pageshow", event => { if (event.persisted) location.reload(); });
