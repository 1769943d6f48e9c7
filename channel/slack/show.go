package slack

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Show returns the messages about open changes as JSON, without sending them: of each cause its message, and the entries of its thread.
func Show(c *Config, list []v1alpha1.Drift) ([]byte, error) {
	var owed []*v1alpha1.Drift
	drifts := map[key]*v1alpha1.Drift{}
	for i := range list {
		owed = append(owed, &list[i])
		drifts[keyOf(&list[i])] = &list[i]
	}
	look := renderer{config: c, zone: c.location()}
	var out []any
	show := func(m message) { out = append(out, map[string]any{"text": m.text, "blocks": m.blocks}) }
	for _, r := range assign(nil, owed, time.Now()) {
		card, members := r.members(drifts)
		show(look.main(card, members, min(len(members), maxListed)))
		for i := range members {
			if len(members) > 1 && r.Members[i].Listed {
				show(look.entry(&members[i]))
			}
		}
	}
	raw, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("cannot encode messages: %w", err)
	}
	return raw, nil
}
