package slackfake

import (
	"encoding/json"
	"fmt"
	"unicode/utf16"
)

// Slack's limits of blocks, from its documentation; maxAll is not documented.
const (
	maxBlocks, maxAll                        = 50, 13000
	maxText, maxHeader, maxElements          = 3000, 150, 25
	maxButton, maxValue, maxID, maxURL       = 75, 2000, 255, 3000
	maxConfirmTitle, maxConfirmText          = 100, 300
	maxOptions, maxOptionText, maxOptionID   = 100, 75, 150
	maxFallback                              = 4000
	typeHeader, typeRich, typeActions        = "header", "rich_text", "actions"
	typeSection, typeContext, typeDivider    = "section", "context", "divider"
	typeInput, typeButton, typeStaticSelect  = "input", "button", "static_select"
	codeInvalidBlocks, codeBlocksTooLong     = "invalid_blocks", "msg_blocks_too_long"
	codeNoText, codeTooManyBlocks            = "no_text", "too_many_blocks"
	codeMessageTooLong, codeMessageNotFound  = "msg_too_long", "message_not_found"
	codeUserNotFound, codeChannelNotFound    = "user_not_found", "channel_not_found"
	codeNotInChannel, codeInvalidAuth        = "not_in_channel", "invalid_auth"
	codeTriggerExpired, codeInvalidArguments = "expired_trigger_id", "invalid_arguments"
)

// chars returns the chars of a text, as Slack counts them.
func chars(s string) int { return len(utf16.Encode([]rune(s))) }

// Invalid reports the code and the reason why Slack does not accept blocks, given as JSON; empty where it does.
func Invalid(raw string) (code, why string) {
	if raw == "" {
		return "", ""
	}
	var blocks []map[string]any
	if err := json.Unmarshal([]byte(raw), &blocks); err != nil {
		return codeInvalidBlocks, err.Error()
	}
	if len(blocks) > maxBlocks {
		return codeTooManyBlocks, fmt.Sprintf("%d blocks", len(blocks))
	}
	total, ids := 0, map[string]bool{}
	for i, b := range blocks {
		id, _ := b["block_id"].(string)
		if chars(id) > maxID || id != "" && ids[id] {
			return codeInvalidBlocks, fmt.Sprintf("block %d: id %q", i, id)
		}
		ids[id] = true
		if why := invalidBlock(b); why != "" {
			return codeInvalidBlocks, fmt.Sprintf("block %d: %s", i, why)
		}
		total += textIn(b)
	}
	if total > maxAll {
		return codeBlocksTooLong, fmt.Sprintf("%d characters", total)
	}
	return "", ""
}

// textIn returns the number of characters of the texts in a part of a message.
func textIn(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if s, is := e.(string); is && (k == "text" || k == "value" || k == "url") {
				n += chars(s)
				continue
			}
			n += textIn(e)
		}
	case []any:
		for _, e := range v {
			n += textIn(e)
		}
	}
	return n
}

// invalidBlock returns why a block is not accepted.
func invalidBlock(b map[string]any) string {
	switch b["type"] {
	case typeHeader:
		return invalidText(b["text"], maxHeader, "plain_text")
	case typeSection:
		return invalidText(b["text"], maxText, "")
	case typeRich:
		if n := textIn(b); n == 0 || n > maxText {
			return fmt.Sprintf("rich text of %d characters", n)
		}
	case typeActions:
		elements, _ := b["elements"].([]any)
		if len(elements) == 0 || len(elements) > maxElements {
			return fmt.Sprintf("%d elements", len(elements))
		}
		seen := map[any]bool{}
		for _, e := range elements {
			m, _ := e.(map[string]any)
			if seen[m["action_id"]] {
				return fmt.Sprintf("action_id %v twice", m["action_id"])
			}
			seen[m["action_id"]] = true
			if why := invalidElement(m); why != "" {
				return why
			}
		}
	case typeInput, typeContext, typeDivider:
	default:
		return fmt.Sprintf("type %v", b["type"])
	}
	return ""
}

// invalidElement returns why a button or menu is not accepted.
func invalidElement(m map[string]any) string {
	for k, limit := range map[string]int{"action_id": maxID, "value": maxValue, "url": maxURL} {
		if s, _ := m[k].(string); chars(s) > limit {
			return fmt.Sprintf("%s of %d characters", k, chars(s))
		}
	}
	if c, ok := m["confirm"].(map[string]any); ok {
		for k, limit := range map[string]int{"title": maxConfirmTitle, "text": maxConfirmText, "confirm": 30, "deny": 30} {
			if why := invalidText(c[k], limit, ""); why != "" {
				return "confirm." + k + ": " + why
			}
		}
	}
	switch m["type"] {
	case typeButton:
		return invalidText(m["text"], maxButton, "plain_text")
	case typeStaticSelect:
		options, _ := m["options"].([]any)
		if len(options) == 0 || len(options) > maxOptions {
			return fmt.Sprintf("%d options", len(options))
		}
		for _, o := range options {
			o, _ := o.(map[string]any)
			if s, _ := o["value"].(string); s == "" || chars(s) > maxOptionID {
				return fmt.Sprintf("option value %q", s)
			}
			if why := invalidText(o["text"], maxOptionText, "plain_text"); why != "" {
				return why
			}
		}
		return invalidText(m["placeholder"], 150, "plain_text")
	}
	return fmt.Sprintf("element %v", m["type"])
}

// invalidText returns why a text object is not accepted.
func invalidText(v any, limit int, kind string) string {
	m, _ := v.(map[string]any)
	s, _ := m["text"].(string)
	switch {
	case s == "":
		return "an empty text"
	case chars(s) > limit:
		return fmt.Sprintf("text of %d characters, more than %d", chars(s), limit)
	case kind != "" && m["type"] != kind:
		return fmt.Sprintf("text of type %v", m["type"])
	}
	return ""
}
