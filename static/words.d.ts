// The texts of package views, which makes this module.
/** By their names; values stand where there are braces. */
export const words: Record<string, string>;
