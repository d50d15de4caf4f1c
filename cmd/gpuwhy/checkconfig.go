package main

import (
	"fmt"

	"github.com/gpuwhy/gpuwhy/internal/alert/rulefile"
)

type checkConfigCommand struct {
	Schema bool `name:"schema" help:"Print the JSON schema of the file of alert rules instead."`
}

// Run says whether gpuwhy would start with this configuration. Flags,
// environment and file were checked before it is called.
func (c checkConfigCommand) Run(env *environment) error {
	if c.Schema {
		_, err := env.stdout.Write(rulefile.Schema)
		return err
	}
	file, err := loadRules(env.cfg)
	if err != nil {
		return usageError{err}
	}
	enabled := 0
	for i := range file.Rules {
		if file.Rules[i].Enabled {
			enabled++
		}
	}
	_, err = fmt.Fprintf(env.stdout, "The configuration is good: %d rules of alerts, %d of them enabled; targets that are told: %d.\n", len(file.Rules), enabled, len(file.Notify.Targets))
	return err
}
