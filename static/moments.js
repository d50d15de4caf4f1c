// @ts-check
// Times in the reader's time zone and language.

const clock = new Intl.DateTimeFormat([], {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
});

/** Short forms of times, by the server's name for them. */
const short = {
  clock: new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }),
  day: new Intl.DateTimeFormat([], { day: "numeric", month: "short" }),
};

/** @param {string} time RFC 3339 */
export const moment = (time) => clock.format(Date.parse(time));

/**
 * Rewrites the times that the server wrote in UTC (views/moment.go).
 * @param {ParentNode} root
 */
export function rewriteMoments(root) {
  for (const el of /** @type {NodeListOf<HTMLTimeElement>} */ (root.querySelectorAll("[data-at], time"))) {
    const at = el.dataset.at ?? el.dateTime;
    const own = (/** @type {string | null} */ text) => (text ?? "").replace(`${at.slice(0, 10)} ${at.slice(11, 19)} UTC`, () => moment(at));
    const form = short[/** @type {"clock" | "day"} */ (el.dataset.form)];
    const text = form ? form.format(Date.parse(at)) : own(el.textContent);
    if (!el.firstElementChild && el.textContent !== text) el.textContent = text;
    if (el.title && el.title !== own(el.title)) el.title = own(el.title);
  }
}
