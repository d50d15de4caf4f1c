package main

// Libraries that parts in work need. Whoever uses one deletes its line.
import (
	_ "charm.land/bubbles/v2/textinput"
	_ "charm.land/bubbletea/v2"
	_ "charm.land/lipgloss/v2"
)
