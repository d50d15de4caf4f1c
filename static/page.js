// @ts-check
// The script of all pages that change by themselves.

import "./live.js";
import "./tell.js";
import { sendForms } from "./forms.js";
import { begin } from "./picture.js";

sendForms();
begin();
