// @ts-check
// Why, and the evidence for it: the twin of views/cause.go.

import { between, clean, dots, longestName, say, sentence } from "./format.js";
import { moment } from "./moments.js";
import { byId, setHidden, setText } from "./dom.js";
import { setTexts, slot, sync } from "./rows.js";

/** @typedef {import("./message.js").Cause} Cause */

/**
 * The main causes: of the GPU that is told of first, then of the machine; of
 * one GPU alone on its own page, which begins with its first.
 * @param {import("./message.js").Update} update
 * @param {string | undefined} only that page's GPU
 */
export function showCauses({ why, causes, timestamp, gpus, failures }, only) {
  const lead = causes.find((c) => c.gpu_uuid && (!only || c.gpu_uuid === only));
  if (only && !lead) return; // of very many GPUs a first message has the loudest ones' alone
  const rows = causes.filter((c) => lead && c.gpu_uuid === lead.gpu_uuid && c.node === lead.node);
  // Without a GPU what was tried is on the page.
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
