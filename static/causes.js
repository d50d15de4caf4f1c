// @ts-check
// The causes and their evidence. views/cause.go writes the same in Go.

import { between, clean, dots, longestName, say, sentence } from "./format.js";
import { moment } from "./moments.js";
import { byId, setHidden, setText } from "./dom.js";
import { setTexts, slot, sync } from "./rows.js";

/** @typedef {import("./message.js").Cause} Cause */

/**
 * Shows the causes of the first GPU in the list, then those of the machine. The
 * page of a GPU shows the causes of that GPU alone.
 * @param {import("./message.js").Update} update
 * @param {string | undefined} only that page's GPU
 */
export function showCauses({ why, causes, timestamp, gpus, failures }, only) {
  const lead = causes.find((c) => c.gpu_uuid && (!only || c.gpu_uuid === only));
  if (only && !lead) return; // with very many GPUs a first message has the causes of the loudest alone
  const rows = causes.filter((c) => lead && c.gpu_uuid === lead.gpu_uuid && c.node === lead.node);
  // Without a GPU the page lists what was tried instead.
  if (!only && (gpus.length || !failures.length)) rows.push(...causes.filter((c) => !c.gpu_uuid));
  const answer = sentence(only ? rows[0].sentence : why);
  setText(byId("why"), answer);
  byId("why").toggleAttribute("data-long", Array.from(answer).length > 150);
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
  sync(slot(row, "evidence"), "t-evidence", c.evidence.map((e, i) => ({ e, i })), ({ i }) => String(i), (line, { e }) => setTexts(line, {
    name: clean(e.name, longestName),
    text: e.moment && e.at ? moment(e.at) : sentence(e.text),
    seen: e.at && Date.parse(now) - Date.parse(e.at) >= 2000 ? say("ago", between(e.at, now)) : "",
  }));
}
