// Files that a person takes along or brings.

/** Lets the browser keep a text as a file. @param {string} name @param {string} text @param {string} [type] */
export function save(name, text, type = 'application/json') {
  const at = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement('a');
  link.href = at;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(at), 60_000);
}
