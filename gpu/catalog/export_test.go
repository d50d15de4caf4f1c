package catalog

// Files are the origins of the sources that read files, for tests.
func Files() map[string]map[string]string { return files }
