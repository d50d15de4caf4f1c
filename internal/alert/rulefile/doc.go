// Package rulefile reads the YAML file with the rules of alerts and the targets of
// messages. A file is taken whole or not at all. Its errors have lines, and are
// reported together.
package rulefile
