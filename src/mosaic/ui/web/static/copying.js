// Copies a text and returns whether that worked. Over plain HTTP from another machine a page has no clipboard, but text that
// is selected in a field can be copied.
window.mosaicCopy = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { /* there is no clipboard, or it is not allowed */ }
  const before = document.activeElement;
  const field = Object.assign(document.createElement("textarea"), { value: text, readOnly: true });
  field.style.cssText = "position:fixed;opacity:0";
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  before?.focus?.();
  return done;
};
