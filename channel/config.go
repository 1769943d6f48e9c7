package channel

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// LoadConfig reads the configuration of a process from a YAML file. Fields that are not known are errors.
func LoadConfig(file string, into any) error {
	raw, err := os.ReadFile(file) //nolint:gosec // The operator names the file.
	if err != nil {
		return fmt.Errorf("cannot read the configuration: %w", err)
	}
	if err := yaml.UnmarshalStrict(raw, into); err != nil {
		return fmt.Errorf("cannot read the configuration %s: %w", file, err)
	}
	return nil
}
