package facts

import (
	"context"
	"strings"

	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/request"
)

// maxGraphLines is how many lines of a graph a message names.
const maxGraphLines = 3

// GraphLines returns where the graph of a parent has what decides about fields of the object, for messages; of the first ones, and of those
// that the request changes where no paths are given (KR-18-10). The path "" is the object itself. It is "" where the parent is no instance
// of a graph, and where the graph cannot be read.
func GraphLines(ctx context.Context, f *Facts, p *parent.State, paths []string) string {
	graph := f.KindOf(p).Graph
	if graph == "" {
		return ""
	}
	node := f.Req.Stored().GetLabels()[authorship.LabelNode]
	content, err := f.World.Object(ctx, parent.Ref{GroupVersionKind: authorship.GraphKind, Name: graph})
	if node == "" || err != nil || content == nil {
		return ""
	}
	switch {
	case len(paths) > 0:
	case f.Req.Operation != request.Update:
		paths = []string{""}
	default:
		for _, d := range f.Fields() {
			paths = append(paths, d.Path)
		}
	}
	var lines []string
	for _, path := range paths[:min(len(paths), maxGraphLines)] {
		lines = append(lines, authorship.GraphLine(content, node, path))
	}
	if len(lines) == 0 {
		return ""
	}
	return "; in ResourceGraphDefinition " + graph + ": " + strings.Join(lines, ", ")
}
