package catalog

// ofIntel are the files of the i915 and xe drivers that have a reading, by its ID.
var ofIntel = map[string]string{}
