// @ts-check
// Passkeys: the page to sign in has a button that uses one, and lets the browser suggest one in the field of the name; the account page has a
// form that adds one. Where the browser knows no passkeys, there is none of that.

const { base = "/", to = "" } = document.body.dataset;
const says = /** @type {HTMLElement | null} */ (document.getElementById("passkey-says"));
const able = typeof PublicKeyCredential === "function" && "parseRequestOptionsFromJSON" in PublicKeyCredential;

/**
 * Asks the server, and returns its answer. Its refusals become errors with its words.
 * @param {string} path
 * @param {any} [body]
 */
async function post(path, body) {
  const answer = await fetch(base + path, {
    method: "POST", headers: { Accept: "application/json", "Content-Type": "application/json" }, body: body && JSON.stringify(body), redirect: "manual",
  }).catch(() => undefined);
  const said = await answer?.json().catch(() => undefined);
  if (!answer?.ok) throw new Error(said?.detail ?? says?.dataset.away);
  return said;
}

/**
 * Has the browser do something with a passkey, and goes where the server then says.
 * @param {HTMLButtonElement | null} button
 * @param {() => Promise<{to: string}>} ceremony
 */
async function perform(button, ceremony) {
  if (!button || button.disabled) return;
  button.disabled = true;
  if (says) says.textContent = "";
  try {
    location.assign((await ceremony()).to);
  } catch (problem) {
    // The browser's own words are in another language, or say nothing.
    if (says) says.textContent = (problem instanceof DOMException ? says.dataset.stopped : /** @type {Error} */ (problem).message) ?? "";
  }
  button.disabled = false;
}

/** What a passkey has signed or made. @param {Credential | null} made */
const json = (made) => /** @type {any} */ (made).toJSON();

const sign = document.getElementById("passkey");
const button = sign?.querySelector("button") ?? null;

/** Ends what the browser suggests: it does one thing with passkeys at a time. */
let suggesting = new AbortController();
/** For how long the server knows what it has asked, with a minute to spare. */
const fresh = 4 * 60_000;

/** Signs in with a passkey. @param {CredentialRequestOptions} how */
async function signIn(how) {
  suggesting.abort();
  if (how.mediation) how.signal = (suggesting = new AbortController()).signal;
  how.publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(await post("sign-in/passkey/begin"));
  return json(await navigator.credentials.get(how));
}

/** Lets the browser suggest passkeys until somebody chooses one. Nobody is told that there is none to suggest. */
async function suggest() {
  const answer = await signIn({ mediation: "conditional" }).catch(() => undefined);
  if (answer) await perform(button, () => post(`sign-in/passkey?to=${encodeURIComponent(to)}`, answer));
}

if (sign && able) {
  sign.hidden = false;
  button?.addEventListener("click", () => perform(button, async () => post(`sign-in/passkey?to=${encodeURIComponent(to)}`, await signIn({}))));
  PublicKeyCredential.isConditionalMediationAvailable?.().then((may) => {
    if (!may) return;
    suggest();
    setInterval(() => { if (!suggesting.signal.aborted && !document.hidden) suggest(); }, fresh);
  });
}

const add = /** @type {HTMLFormElement | null} */ (document.getElementById("add-passkey"));
if (add) add.hidden = !able;
add?.addEventListener("submit", (e) => {
  e.preventDefault();
  perform(add.querySelector("button"), async () => {
    const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(await post("account/passkeys/begin"));
    const title = String(new FormData(add).get("title") ?? "");
    return post(`account/passkeys?title=${encodeURIComponent(title)}`, json(await navigator.credentials.create({ publicKey })));
  });
});

export {};
