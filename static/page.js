// @ts-check
// The script of all pages with a shell.

import { choose } from "./live.js";
import "./tell.js";
import { sendForms } from "./forms.js";
import { addressWith, begin, ends, iso } from "./picture.js";

sendForms();
begin();
if (document.body.matches(".of-past")) import("./then.js").then((then) => then.begin({ choose, addressWith, ends, iso }));
