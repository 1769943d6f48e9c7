package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/kausality-io/function-kausality/test/cloudstate"
	"github.com/kausality-io/function-kausality/test/provider/cloud"
)

// writes to the cloud.
type writes struct {
	// judged is the number of the last entry of its log that was.
	judged int64
	// databases by name, and the size that was written last of each, also of one that does not exist any more.
	databases map[string]*cloudstate.Database
	sizes     map[string]int64
}

// foreign sizes are those from which on none is requested: the cloud is changed to them.
const foreign = 100_000

// judgeCloud: each write since the last call has a cause.
func (s *soak) judgeCloud(ctx context.Context) {
	log, err := the.Cloud.Log(ctx, s.cloud.judged)
	if err != nil {
		s.fail(broken, "the log of the cloud: %v", err)
		return
	}
	for _, e := range log {
		s.cloud.judged = e.Seq
		name := cloudstate.NameOf(e)
		if name == "" {
			continue
		}
		if err := s.judgeWrite(name, e); err != nil {
			s.fail(uncaused, "%s %s %s at %s: %v", e.Method, name, e.Body, e.Time.Format("15:04:05.000"), err)
		}
	}
}

// judgeWrite takes an entry, and returns an error where it is a write that has no cause. What is requested grows, and is written once; what is
// reverted, upgraded or deleted is approved while a Drift of it is expected.
func (s *soak) judgeWrite(name string, e cloud.Entry) error {
	if s.cloud.databases == nil {
		s.cloud.databases, s.cloud.sizes = map[string]*cloudstate.Database{}, map[string]int64{}
	}
	before := s.cloud.databases[name]
	if before == nil {
		before = &cloudstate.Database{}
		s.cloud.databases[name] = before
	}
	var err error
	if e.IsWrite() {
		err = s.judgeFields(name, before, e)
	}
	return errors.Join(err, before.Take(e))
}

func (s *soak) judgeFields(name string, before *cloudstate.Database, e cloud.Entry) error {
	expects := func(relation string) bool { return s.expects([]string{relation + "/Database/" + name}, e.Time) }
	if e.Method == http.MethodDelete {
		if !expects("") {
			return errors.New("no user requested its deletion")
		}
		return nil
	}
	body, values := cloudstate.Fields{}, cloud.DatabaseFields{}
	if err := errors.Join(json.Unmarshal(e.Body, &body), json.Unmarshal(e.Body, &values)); err != nil {
		return err
	}
	for _, field := range before.Changed(body) {
		switch last := s.cloud.sizes[name]; {
		case field == "size" && values.Size > last && values.Size < foreign:
			if e.Succeeded() {
				s.cloud.sizes[name] = values.Size
			}
		case field == "size" && values.Size == last && expects("External"): // it is reverted
		case field == "tags" && len(values.Tags) == 1 && values.Tags["tier"] != "" && (!before.Exists || expects("ControllerChild")):
		case field == "engine" && !before.Exists:
		default:
			return fmt.Errorf("no user requested another %s than %s", field, before.Fields[field])
		}
	}
	return nil
}
