// @ts-check
// Passkeys: the page to sign in has a button that uses one, and the account page a form that adds one. Where the browser knows no
// passkeys, there is neither.

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
if (sign && able) {
  sign.hidden = false;
  const button = sign.querySelector("button");
  button?.addEventListener("click", () => perform(button, async () => {
    const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(await post("sign-in/passkey/begin"));
    return post(`sign-in/passkey?to=${encodeURIComponent(to)}`, json(await navigator.credentials.get({ publicKey })));
  }));
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
