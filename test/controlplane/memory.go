package controlplane

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Peak is the most memory that a process has had resident at a time.
const Peak = "VmHWM"

// Memory returns a figure of the memory of the process in KiB, by its name in /proc, such as Peak.
func (p *Process) Memory(name string) (int, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		return 0, fmt.Errorf("cannot read the memory of %s: %w", p.Name(), err)
	}

	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strconv.Atoi(strings.Fields(rest)[0])
		}
	}

	return 0, fmt.Errorf("/proc has no %s of %s", name, p.Name())
}
