// The console: a bar of pages, and the page that the address names.
import { html, render, Component, useState, useEffect, useRef } from './lib/html.js';
import { locked, signIn, signInFromAddress, signOut, codeTrouble, welcome } from './lib/api.js';
import { signedIn } from './lib/signin.js';
import { route, Link } from './lib/router.js';
import { connection, missed, listen } from './lib/events.js';
import { Page, Trouble, Empty, Button } from './lib/ui.js';
import { keepFocus } from './lib/focus.js';
import { pages } from './pages/index.js';

/** How the socket of events is, in words. @type {Record<string, string>} */
const states = { open: 'live', lost: 'lost, trying again', denied: 'not live: events are for the hub’s owner' };

/** Beside this file, wherever that is. */
const icon = new URL('icon.svg', import.meta.url).href;

function Nav() {
  const at = route.value.path.split('/')[0];
  return html`<nav aria-label="Pages"><${Link} to="" class="brand">
    <img src=${icon} alt="" width="20" height="20" /> Stoa<//>
    <ul>${pages.map((p) => html`<li><${Link} to=${p.path} aria-current=${at === p.path ? 'page' : undefined}>${p.title}<//>
    </li>`)}</ul>
    <div class="foot"><span class=${'dot ' + connection.value} role="status" aria-label=${'Events: ' + connection.value}>
    </span> ${states[connection.value] || connection.value}
    ${missed.value ? html` · ${missed.value} missed` : null}</div>
    <div class="foot who"><span title="Who is signed in here">${signedIn.value?.owner ? 'The owner' : signedIn.value?.name}</span>
    <${Button} onClick=${() => signOut()} data-testid="sign-out">Sign out<//>
    <${Trouble} error=${codeTrouble.value} /></div></nav>`;
}

/** The most characters of a code; a token is longer, and lasts, so that it is not shown. */
const codeLength = 14;

function Lock() {
  const [error, setError] = useState(codeTrouble.value);
  const [busy, setBusy] = useState(false);
  const [long, setLong] = useState(false);
  const submit = async (/** @type {any} */ e) => {
    e.preventDefault();
    if (busy) return;
    setBusy(true);
    try {
      await signIn(new FormData(e.target).get('code')?.toString() || '');
    } catch (err) {
      setError(err);
    }
    setBusy(false);
  };
  const field = useRef(/** @type {HTMLInputElement|null} */ (null));
  useEffect(() => field.current?.focus(), []); // it may have been in what is hidden now
  return html`<${Page} title="Sign in"><form class="lock" onSubmit=${submit}>
    ${welcome.value ? html`<p class="notice" role="status">You are no longer signed in. A sign-in lasts 12 hours; it ends earlier when
      you sign out elsewhere or your token is revoked. Sign in again to go on where you were.</p>` : null}
    <p>On the hub’s machine, <code>stoa console</code> opens this page and signs you in. If it does not, type the code
      that${' '}<code>stoa console --no-open</code> prints. It works once, within two minutes.</p>
    <p>If you were given a token, type that.</p>
    <label>Code or token <input name="code" type=${long ? 'password' : 'text'} autocomplete="off" autocapitalize="off" spellcheck=${false}
    required ref=${field} onInput=${(/** @type {any} */ e) => setLong(e.target.value.trim().length > codeLength)} /></label> <button aria-disabled=${busy}>Sign in</button>
    <${Trouble} error=${error} /></form><//>`;
}

function Missing() {
  return html`<${Page} title="Nothing here"><${Empty}>There is no such view. The bar has those that there are.<//><//>`;
}

/** Keeps what one page throws to that page: the bar stays, and says so. */
class Boundary extends Component {
  /** @param {any} error */
  componentDidCatch(error) {
    reportError(error);
    this.setState({ error, at: /** @type {any} */ (this.props).at });
  }

  render() {
    const { error, at } = /** @type {any} */ (this.state);
    if (!error || at !== /** @type {any} */ (this.props).at) return /** @type {any} */ (this.props).children;
    return html`<${Page} title="This page broke">
      <${Trouble} error=${{ message: String(error.message || error), hint: 'The hub is not touched by it. Load the page anew; if it breaks again, report it.' }} /><//>`;
  }
}

/** A part of the address as it was meant; one that cannot be read stays as it is. @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function App() {
  useEffect(() => listen(() => {}, false), []);
  // A page that was open when its sign-in ended waits behind the lock: what was typed into it is there afterwards.
  const opened = useRef(false);
  opened.current ||= !locked.value;
  if (!opened.current) return html`<${Lock} />`;
  const [first, ...rest] = route.value.path.split('/');
  const page = pages.find((p) => p.path === first && rest.length <= p.depth);
  return html`${locked.value ? html`<${Lock} />` : null}<div class="pages" hidden=${locked.value}><a class="skip"
    href="#main">To the content</a><${Nav} /><${Boundary} at=${route.value.path}>${
      page
        ? html`<${page.view} key=${page.path} rest=${rest.map(decoded)} query=${route.value.query} />`
        : html`<${Missing} />`
    }<//></div>`;
}

await signInFromAddress();
const root = /** @type {HTMLElement} */ (document.getElementById('app'));
root.textContent = '';
keepFocus(root);
render(html`<${App} />`, root);
