//go:build !linux

package ownfile

import "errors"

func release() error { return errors.ErrUnsupported }
