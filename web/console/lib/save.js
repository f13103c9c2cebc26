// Files that a person takes along or brings.

/** Lets the browser keep something as a file. @param {string} name @param {string|Blob} content @param {string} [type] of a text */
export function save(name, content, type = 'application/json') {
  const at = URL.createObjectURL(typeof content === 'string' ? new Blob([content], { type }) : content);
  const link = document.createElement('a');
  link.href = at;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(at), 60_000);
}
