// Package rulefile reads the YAML file in which people write their rules of
// alerts, and whom they tell. A file is taken whole or not at all; what is wrong
// with it is said with the line, all of it at once.
package rulefile
