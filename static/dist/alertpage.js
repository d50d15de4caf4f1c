import{f as o,h as r}from"./shared.js";r(document.body);o(()=>location.reload());
