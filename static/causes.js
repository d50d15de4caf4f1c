// @ts-check
// The answer, and its causes with their evidence. views/answer.go and views/cause.go
// write the same in Go.

import { between, clean, dots, keyOf, longestName, say, sentence } from "./format.js";
import { moment } from "./moments.js";
import { byId, setHidden, setText } from "./dom.js";
import { setTexts, slot, sync } from "./rows.js";

/** @typedef {import("./message.js").Cause} Cause */

const command = byId("command");
const copy = byId("copy-it");

copy.onclick = async () => {
  let done = "Copied";
  try {
    await navigator.clipboard.writeText(command.textContent ?? "");
  } catch { // not permitted here
    getSelection()?.selectAllChildren(command);
    done = "Selected";
  }
  copy.textContent = byId("said").textContent = done;
  setTimeout(offerCopy, 5000);
};

const offerCopy = () => setText(copy, "Copy");

/** @param {import("./message.js").Layers} answer */
export function showAnswer({ headline, broken, facts, rest, action }) {
  const answer = byId("answer");
  answer.toggleAttribute("data-long", headline.length > 45);
  answer.toggleAttribute("data-broken", !!broken);
  if (command.textContent !== action.command) offerCopy();
  setTexts(answer, {
    headline: sentence(headline), rest: sentence(rest), action: sentence(action.text), command: action.command,
  });
  sync(byId("chips"), "t-chip", facts, (f) => facts.indexOf(f), (row, f) => {
    row.toggleAttribute("data-warning", f.warning);
    setText(row, sentence(f.text));
  });
}

/**
 * Shows the causes of the first GPU in the list, then those of the machine. The
 * page of a GPU shows the causes of that GPU alone.
 * @param {import("./message.js").Update} update
 * @param {string | undefined} only that page's GPU
 */
export function showCauses({ why, causes, timestamp, failures }, only) {
  const lead = causes.find((c) => c.gpu_uuid && (!only || c.gpu_uuid === only));
  if (only && !lead) return; // with very many GPUs a first message has the causes of the loudest alone
  const rows = causes.filter((c) => lead && keyOf(c) === keyOf(lead));
  if (!only) {
    setText(byId("why"), sentence(why));
    // Without a GPU the page lists what was tried.
    rows.push(...causes.filter((c) => !c.gpu_uuid && (c.id !== "no_gpu" || !failures.length)));
  }
  setHidden(byId("evidence"), rows.length === 0);
  sync(byId("causes"), "t-cause", rows, (c) => c.id, (row, c) => showCause(row, c, timestamp));
}

/**
 * @param {HTMLElement} row
 * @param {Cause} c
 * @param {string} now
 */
function showCause(row, c, now) {
  setTexts(row, {
    sentence: sentence(c.sentence),
    about: dots(say(`sure ${c.certainty}`), c.since && say("since, for", moment(c.since), between(c.since, now))),
    advice: sentence(c.advice),
  });
  sync(slot(row, "evidence"), "t-evidence", c.evidence, (e) => c.evidence.indexOf(e), (line, e) => setTexts(line, {
    name: clean(e.name, longestName),
    text: e.moment && e.at ? moment(e.at) : sentence(e.text),
    seen: e.at && Date.parse(now) - Date.parse(e.at) >= 2000 ? say("ago", between(e.at, now)) : "",
  }));
}
