//go:build !soak

package sqlite

const kills = 10
