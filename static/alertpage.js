// @ts-check
// The page of alerts sends its forms; all else comes from the server.

import { sendForms } from "./forms.js";
import { rewriteMoments } from "./moments.js";

rewriteMoments(document.body);
sendForms(() => location.reload());
